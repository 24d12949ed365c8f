package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// An adapter that the operator has pinned is held by a request of its own, which no sequence makes. It is not on record here: the router says it again
// for as long as it is not so, also to the next life.

// pinnedBy is the request that holds an adapter for the operator: one for each name, whichever the revision.
func pinnedBy(name string) string { return "operator:" + name }

func (r *replica) onApplyAdapter(ctx actor.Context, msg *messages.ApplyAdapter) {
	if r.lora == nil || r.ending {
		return
	}
	spec := msg.GetAdapter()
	request, key := pinnedBy(spec.GetName()), spec.Key()
	have, _ := r.lora.desk.PinOf(request)
	if have != "" && (have != key || !spec.GetPinned()) {
		r.lora.desk.Unpin(request)
	}
	if other := r.otherBase(spec); other != nil {
		if r.lora.lacking[key] != other.GetDetail() {
			r.Log.Warn().Str("adapter", key).Str("why", other.GetDetail()).Msg("pinned adapter is not on the device")
		}
		r.lora.lacking[key] = other.GetDetail()
	} else if spec.GetPinned() {
		r.noteAdapter(ctx, spec)
		if _, why := r.lora.desk.Pin(request, key); why != nil {
			r.lora.desk.Unpin(request) // it is asked for anew with the next command
			if r.lora.lacking[key] != why.Detail {
				r.Log.Warn().Str("adapter", key).Str("why", why.Detail).Msg("pinned adapter is not on the device")
			}
			r.lora.lacking[key] = why.Detail
		}
	}
	r.changed(ctx)
	r.advance(ctx)
}

// onForgetAdapter: it is not in the catalogue any more, so it is not pinned either.
func (r *replica) onForgetAdapter(ctx actor.Context, msg *messages.ForgetAdapter) {
	if r.lora == nil || r.lora.life == 0 || r.ending {
		return
	}
	spec := msg.GetAdapter()
	if have, _ := r.lora.desk.PinOf(pinnedBy(spec.GetName())); have == spec.Key() {
		r.lora.desk.Unpin(pinnedBy(spec.GetName()))
		r.advance(ctx)
	}
	ctx.Send(r.lora.pool, msg)
}

// users are how many sequences use an adapter or wait for it, and whether the operator has pinned it.
func (a *adapters) users(spec *messages.AdapterSpec) (sequences uint32, pinned bool) {
	key := spec.Key()
	n := a.desk.Users(key)
	have, holds := a.desk.PinOf(pinnedBy(spec.GetName()))
	if have == key {
		n--
	}
	return uint32(n), have == key && holds
}
