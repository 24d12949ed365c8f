package adapter

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/lora"
	"troupe/messages"
)

// notify reports the locations of adapters to the replica, as far as they have changed.
func (p *pool) notify(ctx actor.Context, keys ...string) {
	var held []*messages.AdapterHeld
	for _, key := range keys {
		k := p.known[key]
		if k == nil || k.file.Layout == nil {
			continue
		}
		if !p.machine.Registered(key) {
			delete(p.known, key)
		}
		if now := p.machine.Location(key, p.store.InHost(p.name(key))); now != k.reported {
			k.reported = now
			held = append(held, &messages.AdapterHeld{
				Name: k.spec.GetName(), Revision: k.spec.GetRevision(), State: states[now.State],
				Location: locations[now.Tier],
			})
		}
	}
	if len(held) > 0 {
		p.sendChanges(ctx, held...)
	}
}

// sendChanges sends changed adapters and the counters to the replica.
func (p *pool) sendChanges(ctx actor.Context, held ...*messages.AdapterHeld) {
	did := p.machine.Stats()
	p.reported = did
	ctx.Request(ctx.Parent(), &messages.AdaptersChanged{Incarnation: p.incarnation, Adapters: held,
		Counts: &messages.AdapterCounts{
			Pages: uint32(p.machine.TotalPages()), PagesFree: uint32(p.machine.FreePages()),
			PagesMin: uint32(p.store.MinPages()), Hits: did.Hits,
			Loads: did.Loads, Reads: did.Reads, HostLoads: did.HostLoads, Prefetches: did.Prefetches,
			Evictions: did.Evictions, Failures: did.Failures,
		}})
}

var states = map[lora.State]messages.AdapterState{
	lora.Absent:   messages.AdapterState_ADAPTER_STATE_ABSENT,
	lora.Loading:  messages.AdapterState_ADAPTER_STATE_LOADING,
	lora.Idle:     messages.AdapterState_ADAPTER_STATE_IDLE,
	lora.Active:   messages.AdapterState_ADAPTER_STATE_ACTIVE,
	lora.Evicting: messages.AdapterState_ADAPTER_STATE_EVICTING,
}

var locations = map[lora.Tier]messages.AdapterLocation{
	lora.Disk: messages.AdapterLocation_ADAPTER_LOCATION_DISK,
	lora.DRAM: messages.AdapterLocation_ADAPTER_LOCATION_DRAM,
	lora.GPU:  messages.AdapterLocation_ADAPTER_LOCATION_GPU,
}

// sources are the tiers that a slot has loaded from.
var sources = map[messages.AdapterLocation]lora.Tier{
	messages.AdapterLocation_ADAPTER_LOCATION_DISK: lora.Disk,
	messages.AdapterLocation_ADAPTER_LOCATION_DRAM: lora.DRAM,
	messages.AdapterLocation_ADAPTER_LOCATION_GPU:  lora.GPU,
}

var reasons = map[lora.Reason]messages.Reason{
	lora.Unknown:   messages.Reason_REASON_NOT_FOUND,
	lora.Deleting:  messages.Reason_REASON_NOT_FOUND,
	lora.NoRoom:    messages.Reason_REASON_QUEUE_FULL,
	lora.TooLarge:  messages.Reason_REASON_NO_MEMORY,
	lora.Failed:    messages.Reason_REASON_LOAD_FAILED,
	lora.Duplicate: messages.Reason_REASON_CONFLICT,
}

// noRoomRetryDelay is the delay after which a pin refused for lack of room is retried. A caller
// that learns of released pages can retry earlier.
const noRoomRetryDelay = 100 * time.Millisecond

func refusedByPool(why *lora.Refusal) *messages.Refused {
	r := &messages.Refused{Reason: reasons[why.Reason], Detail: why.Detail}
	if why.Reason == lora.NoRoom {
		r.RetryAfter = durationpb.New(noRoomRetryDelay)
	}
	return r
}
