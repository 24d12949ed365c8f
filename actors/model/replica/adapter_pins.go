package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// An adapter that the operator has pinned is held by a request of its own, which no sequence makes. It is not on record here: the router says it again
// for as long as it is not so, also to the next life.

// operatorPin is the request that holds an adapter for the operator: one for each name, whichever the revision.
func operatorPin(name string) string { return "operator:" + name }

func (r *replica) onApplyAdapter(ctx actor.Context, msg *messages.ApplyAdapter) {
	if r.lora == nil || r.stopping {
		return
	}
	spec := msg.GetAdapter()
	request, key := operatorPin(spec.GetName()), spec.Key()
	have, _ := r.lora.pins.PinOf(request)
	if have != "" && (have != key || !spec.GetPinned()) {
		r.lora.pins.Unpin(request)
	}
	if other := r.checkBase(spec); other != nil {
		if r.lora.failedPins[key] != other.GetDetail() {
			r.Log.Warn().Str("adapter", key).Str("why", other.GetDetail()).Msg("pinned adapter is not on the device")
		}
		r.lora.failedPins[key] = other.GetDetail()
	} else if spec.GetPinned() {
		r.registerAdapter(ctx, spec)
		if _, why := r.lora.pins.Pin(request, key); why != nil {
			r.lora.pins.Unpin(request) // it is asked for anew with the next command
			if r.lora.failedPins[key] != why.Detail {
				r.Log.Warn().Str("adapter", key).Str("why", why.Detail).Msg("pinned adapter is not on the device")
			}
			r.lora.failedPins[key] = why.Detail
		}
	}
	r.scheduleReport(ctx)
	r.advance(ctx)
}

// onForgetAdapter: it is not in the catalogue any more, so it is not pinned either.
func (r *replica) onForgetAdapter(ctx actor.Context, msg *messages.ForgetAdapter) {
	if r.lora == nil || r.lora.poolIncarnation == 0 || r.stopping {
		return
	}
	spec := msg.GetAdapter()
	if have, _ := r.lora.pins.PinOf(operatorPin(spec.GetName())); have == spec.Key() {
		r.lora.pins.Unpin(operatorPin(spec.GetName()))
		r.advance(ctx)
	}
	ctx.Send(r.lora.pool, msg)
}

// users are how many sequences use an adapter or wait for it, and whether the operator has pinned it.
func (a *adapterState) usage(spec *messages.AdapterSpec) (sequences uint32, pinned bool) {
	key := spec.Key()
	n := a.pins.Users(key)
	have, holds := a.pins.PinOf(operatorPin(spec.GetName()))
	if have == key {
		n--
	}
	return uint32(n), have == key && holds
}
