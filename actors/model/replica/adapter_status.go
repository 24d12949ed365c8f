package replica

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/messages"
)

// onAdaptersChanged records the new locations of adapters.
func (r *replica) onAdaptersChanged(ctx actor.Context, msg *messages.AdaptersChanged) {
	if r.lora == nil || r.stopping || msg.GetIncarnation() != r.lora.poolIncarnation {
		return
	}
	for _, a := range msg.GetAdapters() {
		spec := &messages.AdapterSpec{Name: a.GetName(), Revision: a.GetRevision()}
		r.lora.pins.OnState(spec.Key(), lora.Location{State: stateFromMessage[a.GetState()],
			Tier: tierFromMessage[a.GetLocation()]})
	}
	r.lora.counts = msg.GetCounts()
	r.scheduleReport(ctx)
	if len(msg.GetAdapters()) > 0 {
		r.advance(ctx)
	}
}

// list returns the adapters on the device or in host memory, by name.
func (a *adapterState) list() (all []*messages.AdapterHeld) {
	for key, w := range a.pins.Locations() {
		spec := messages.AdapterOf(key)
		held := &messages.AdapterHeld{
			Name: spec.GetName(), Revision: spec.GetRevision(), State: stateToMessage[w.State],
			Location: tierToMessage[w.Tier],
		}
		held.Sequences, held.Pinned = a.usage(spec)
		all = append(all, held)
	}
	slices.SortFunc(all, func(a, b *messages.AdapterHeld) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetRevision(), b.GetRevision()))
	})
	return all
}

// invert swaps keys and values.
func invert[K, V comparable](m map[K]V) map[V]K {
	out := make(map[V]K, len(m))
	for k, v := range m {
		out[v] = k
	}
	return out
}

var stateToMessage, tierToMessage, reasonFromMessage = invert(stateFromMessage), invert(tierFromMessage),
	invert(reasonToMessage)

var stateFromMessage = map[messages.AdapterState]lora.State{
	messages.AdapterState_ADAPTER_STATE_ABSENT:   lora.Absent,
	messages.AdapterState_ADAPTER_STATE_LOADING:  lora.Loading,
	messages.AdapterState_ADAPTER_STATE_IDLE:     lora.Idle,
	messages.AdapterState_ADAPTER_STATE_ACTIVE:   lora.Active,
	messages.AdapterState_ADAPTER_STATE_EVICTING: lora.Evicting,
}

var tierFromMessage = map[messages.AdapterLocation]lora.Tier{
	messages.AdapterLocation_ADAPTER_LOCATION_DISK: lora.Disk,
	messages.AdapterLocation_ADAPTER_LOCATION_DRAM: lora.DRAM,
	messages.AdapterLocation_ADAPTER_LOCATION_GPU:  lora.GPU,
}

// reasonToMessage maps the reasons of the pool's refusals.
var reasonToMessage = map[lora.Reason]messages.Reason{
	lora.Unknown:   messages.Reason_REASON_NOT_FOUND,
	lora.NoRoom:    messages.Reason_REASON_QUEUE_FULL,
	lora.TooLarge:  messages.Reason_REASON_NO_MEMORY,
	lora.Failed:    messages.Reason_REASON_LOAD_FAILED,
	lora.Duplicate: messages.Reason_REASON_CONFLICT,
}

func refusedByPool(msg *messages.Refused) *lora.Refusal {
	if msg == nil {
		return nil
	}
	reason, known := reasonFromMessage[msg.GetReason()]
	if !known {
		reason = lora.Failed
	}
	return &lora.Refusal{Reason: reason, Detail: msg.GetDetail()}
}
