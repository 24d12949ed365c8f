package adapter

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/cuda"
	"troupe/messages"
)

var errSlot = errors.New("slot crashed too often")

// onLoaded handles the result of a load. If the device is lost, the pool notifies the GPU actor and
// crashes, and its replica with it, instead of refusing the adapter: the sessions of its requests find
// another replica.
func (p *pool) onLoaded(ctx actor.Context, msg *messages.SlotLoaded) {
	key, slot := msg.GetAdapter(), p.slots[msg.GetAdapter()]
	if slot == nil || !slot.Equal(ctx.Sender()) {
		return
	}
	if refused := msg.GetRefused(); refused != nil {
		if refused.GetReason() == messages.Reason_REASON_QUARANTINED {
			ctx.Send(p.GPU, &messages.DeviceFailed{Lease: p.Lease, Detail: refused.GetDetail()})
			panic(fmt.Errorf("adapter: load %s: %w", key, cuda.ErrDeviceLost))
		}
		p.Log.Warn().Str("adapter", key).Str("why", refused.GetDetail()).Msg("loading adapter failed")
		p.loadFailed(ctx, key, refused.GetReason(), errors.New(refused.GetDetail()))
		ctx.Stop(slot)
		return
	}
	from := sources[msg.GetSource()]
	if p.OnLoaded != nil && from != lora.GPU {
		p.OnLoaded(key)
	}
	p.machine.Loaded(key, from, nil)
	p.perform(ctx, key)
}

func (p *pool) loadFailed(ctx actor.Context, key string, reason messages.Reason, err error) {
	delete(p.slots, key)
	p.known[key].lastFailure = reason
	p.machine.Loaded(key, lora.Disk, err)
	p.perform(ctx, key)
}

// onTerminated handles the end of a slot: its adapter was evicted, or the slot crashed too often.
// The slot has no copy in flight.
func (p *pool) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	key, ok := p.slotKeys[msg.GetWho().GetId()]
	if !ok {
		return
	}
	delete(p.slotKeys, msg.GetWho().GetId())
	if slot := p.slots[key]; slot == nil || !slot.Equal(msg.GetWho()) {
		return // the load has failed
	}
	switch state, _ := p.machine.State(key); state {
	case lora.Evicting:
		delete(p.slots, key)
		p.store.Evict(key)
		p.machine.Evicted(key)
		p.perform(ctx, key)
	case lora.Loading:
		p.store.Evict(key)
		p.loadFailed(ctx, key, messages.Reason_REASON_LOAD_FAILED, errSlot)
	default: // the content of its pages is intact
		table, _ := p.machine.Table(key)
		p.spawn(ctx, SlotConfig{Store: p.store, Name: p.name(key), File: p.known[key].file, Pages: table.Pages})
	}
}
