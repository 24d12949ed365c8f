package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// The operator pins an adapter through a pin request that belongs to no sequence. The replica does
// not persist such pins: the router repeats the command until the adapter is pinned, also after a
// restart.

// operatorPin returns the request that pins an adapter for the operator: one for each name, for all
// revisions.
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
			r.lora.pins.Unpin(request) // the next command requests it again
			if r.lora.failedPins[key] != why.Detail {
				r.Log.Warn().Str("adapter", key).Str("why", why.Detail).Msg("pinned adapter is not on the device")
			}
			r.lora.failedPins[key] = why.Detail
		}
	}
	r.scheduleReport(ctx)
	r.advance(ctx)
}

// onForgetAdapter unpins an adapter that is no longer in the catalogue.
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

// usage returns the number of sequences that use an adapter or wait for it, and whether the
// operator has pinned it.
func (a *adapterState) usage(spec *messages.AdapterSpec) (sequences uint32, pinned bool) {
	key := spec.Key()
	n := a.pins.Users(key)
	have, holds := a.pins.PinOf(operatorPin(spec.GetName()))
	if have == key {
		n--
	}
	return uint32(n), have == key && holds
}
