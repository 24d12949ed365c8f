package adapter

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/messages"
)

// execute carries out the pool's decisions and reports the affected adapters to the replica.
func (p *pool) execute(ctx actor.Context, touched ...string) {
	for actions := p.core.Actions(); len(actions) > 0; actions = p.core.Actions() {
		for _, action := range actions {
			touched = append(touched, p.executeAction(ctx, action))
		}
	}
	for _, key := range touched {
		p.notify(ctx, key)
	}
}

// executeAction carries out one action and returns the key of its adapter.
func (p *pool) executeAction(ctx actor.Context, action lora.Action) (key string) {
	switch a := action.(type) {
	case lora.Load:
		p.spawn(ctx, SlotConfig{Store: p.store, Key: a.Adapter, File: p.known[a.Adapter].file, Pages: a.Table.Pages,
			Keep: a.Keep})
		return a.Adapter
	case lora.Evict:
		ctx.Stop(p.slots[a.Adapter])
		return a.Adapter
	case lora.Drop:
		p.drop(a.Adapter)
		return a.Adapter
	case lora.Ready:
		p.sendPinned(ctx, a.Request, a.Adapter)
		return a.Adapter
	case lora.Lost:
		delete(p.pins, a.Request)
		p.refuse(ctx, a.Request, &messages.Refused{Reason: p.known[a.Adapter].lastFailure, Detail: a.Refusal.Detail})
		return a.Adapter
	}
	panic(fmt.Sprintf("adapter: unknown action %T", action))
}

// spawn starts a slot under the lowest free number.
func (p *pool) spawn(ctx actor.Context, cfg SlotConfig) {
	for n := 0; ; n++ {
		name := fmt.Sprint("slot-", n)
		if _, taken := p.slotKeys[ctx.Self().GetId()+"/"+name]; taken {
			continue
		}
		pid, err := ctx.SpawnNamed(p.Slot(cfg), name)
		if err != nil {
			panic(err)
		}
		p.slots[cfg.Key], p.slotKeys[pid.GetId()] = pid, cfg.Key
		return
	}
}

// onLoaded handles the result of a load.
func (p *pool) onLoaded(ctx actor.Context, msg *messages.SlotLoaded) {
	key, slot := msg.GetAdapter(), p.slots[msg.GetAdapter()]
	if slot == nil || !slot.Equal(ctx.Sender()) {
		return
	}
	if refused := msg.GetRefused(); refused != nil {
		p.Log.Warn().Str("adapter", key).Str("why", refused.GetDetail()).Msg("loading adapter failed")
		p.loadFailed(ctx, key, refused.GetReason(), errors.New(refused.GetDetail()))
		ctx.Stop(slot)
		return
	}
	p.core.Loaded(key, nil)
	p.execute(ctx, key)
}

func (p *pool) loadFailed(ctx actor.Context, key string, reason messages.Reason, err error) {
	delete(p.slots, key)
	p.known[key].lastFailure = reason
	p.core.Loaded(key, err)
	p.execute(ctx, key)
}

// onTerminated handles the end of a slot: its adapter is evicted, or the slot crashed too often. No
// copy of the slot is in flight.
func (p *pool) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	key, ok := p.slotKeys[msg.GetWho().GetId()]
	if !ok {
		return
	}
	delete(p.slotKeys, msg.GetWho().GetId())
	if slot := p.slots[key]; slot == nil || !slot.Equal(msg.GetWho()) {
		return // its load has failed
	}
	switch state, _ := p.core.State(key); state {
	case lora.Evicting:
		delete(p.slots, key)
		p.store.Evict(key)
		p.core.Evicted(key)
		p.execute(ctx, key)
	case lora.Loading:
		p.store.Evict(key)
		p.loadFailed(ctx, key, messages.Reason_REASON_LOAD_FAILED, errSlot)
	default: // the content of its pages is intact
		table, _ := p.core.Table(key)
		p.spawn(ctx, SlotConfig{Store: p.store, Key: key, File: p.known[key].file, Pages: table.Pages})
	}
}
