package wire

import (
	"troupe/core/lora"
	"troupe/core/replica"
	"troupe/messages"
)

// Held converts the adapters on the device or in host memory.
func Held(all []replica.AdapterStatus) (held []*messages.AdapterHeld) {
	for _, a := range all {
		spec := messages.AdapterOf(a.Key)
		held = append(held, &messages.AdapterHeld{
			Name: spec.GetName(), Revision: spec.GetRevision(), State: stateToMessage[a.State],
			Location: tierToMessage[a.Tier], Sequences: uint32(a.Sequences), Pinned: a.Pinned,
		})
	}
	return held
}

// Locations converts the new locations of adapters, by key.
func Locations(all []*messages.AdapterHeld) map[string]lora.Location {
	at := make(map[string]lora.Location, len(all))
	for _, a := range all {
		key := (&messages.AdapterSpec{Name: a.GetName(), Revision: a.GetRevision()}).Key()
		at[key] = lora.Location{State: stateFromMessage[a.GetState()], Tier: tierFromMessage[a.GetLocation()]}
	}
	return at
}

// PinRefusal converts the pool's refusal of a pin; nil stays nil.
func PinRefusal(msg *messages.Refused) *lora.Refusal {
	if msg == nil {
		return nil
	}
	reason, known := poolReasons[msg.GetReason()]
	if !known {
		reason = lora.Failed
	}
	return &lora.Refusal{Reason: reason, Detail: msg.GetDetail()}
}

// poolReasons maps the reasons of the pool's refusals.
var poolReasons = map[messages.Reason]lora.Reason{
	messages.Reason_REASON_NOT_FOUND:   lora.Unknown,
	messages.Reason_REASON_QUEUE_FULL:  lora.NoRoom,
	messages.Reason_REASON_NO_MEMORY:   lora.TooLarge,
	messages.Reason_REASON_LOAD_FAILED: lora.Failed,
	messages.Reason_REASON_CONFLICT:    lora.Duplicate,
}

var stateToMessage, tierToMessage = invert(stateFromMessage), invert(tierFromMessage)

// invert swaps keys and values.
func invert[K, V comparable](m map[K]V) map[V]K {
	out := make(map[V]K, len(m))
	for k, v := range m {
		out[v] = k
	}
	return out
}

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
