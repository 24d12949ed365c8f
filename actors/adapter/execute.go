package adapter

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/messages"
)

// carry carries out what the pool has decided, and tells the replica what became of the adapters concerned.
func (p *pool) carry(ctx actor.Context, touched ...string) {
	for actions := p.core.Actions(); len(actions) > 0; actions = p.core.Actions() {
		for _, action := range actions {
			touched = append(touched, p.act(ctx, action))
		}
	}
	for _, key := range touched {
		p.tell(ctx, key)
	}
}

// act carries one action out and returns whose it is.
func (p *pool) act(ctx actor.Context, action lora.Action) (key string) {
	switch a := action.(type) {
	case lora.Load:
		p.spawn(ctx, SlotConfig{Store: p.store, Key: a.Adapter, File: p.known[a.Adapter].file, Pages: a.Table.Pages, Keep: a.Keep})
		return a.Adapter
	case lora.Evict:
		ctx.Stop(p.slots[a.Adapter])
		return a.Adapter
	case lora.Drop:
		p.drop(a.Adapter)
		return a.Adapter
	case lora.Ready:
		p.pinned(ctx, a.Request, a.Adapter)
		return a.Adapter
	case lora.Lost:
		delete(p.pins, a.Request)
		p.refuse(ctx, a.Request, &messages.Refused{Reason: p.known[a.Adapter].failure, Detail: a.Refusal.Detail})
		return a.Adapter
	}
	panic(fmt.Sprintf("adapter: an action that is not known: %T", action))
}

// spawn starts a slot under the lowest number that is free.
func (p *pool) spawn(ctx actor.Context, cfg SlotConfig) {
	for n := 0; ; n++ {
		name := fmt.Sprint("slot-", n)
		if _, taken := p.tenants[ctx.Self().GetId()+"/"+name]; taken {
			continue
		}
		pid, err := ctx.SpawnNamed(p.Slot(cfg), name)
		if err != nil {
			panic(err)
		}
		p.slots[cfg.Key], p.tenants[pid.GetId()] = pid, cfg.Key
		return
	}
}

// onLoaded: an adapter is in its pages, or could not be loaded.
func (p *pool) onLoaded(ctx actor.Context, msg *messages.SlotLoaded) {
	key, slot := msg.GetAdapter(), p.slots[msg.GetAdapter()]
	if slot == nil || !slot.Equal(ctx.Sender()) {
		return
	}
	if refused := msg.GetRefused(); refused != nil {
		p.Log.Warn().Str("adapter", key).Str("why", refused.GetDetail()).Msg("adapter not loaded")
		p.failed(ctx, key, refused.GetReason(), errors.New(refused.GetDetail()))
		ctx.Stop(slot)
		return
	}
	p.core.Loaded(key, nil)
	p.carry(ctx, key)
}

func (p *pool) failed(ctx actor.Context, key string, reason messages.Reason, err error) {
	delete(p.slots, key)
	p.known[key].failure = reason
	p.core.Loaded(key, err)
	p.carry(ctx, key)
}

// onTerminated: a slot has ended, because its adapter is evicted or because it crashed too often. No copy of its is under way.
func (p *pool) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	key, ok := p.tenants[msg.GetWho().GetId()]
	if !ok {
		return
	}
	delete(p.tenants, msg.GetWho().GetId())
	if slot := p.slots[key]; slot == nil || !slot.Equal(msg.GetWho()) {
		return // its load had failed
	}
	switch state, _ := p.core.State(key); state {
	case lora.Evicting:
		delete(p.slots, key)
		p.store.Evict(key)
		p.core.Evicted(key)
		p.carry(ctx, key)
	case lora.Loading:
		p.store.Evict(key)
		p.failed(ctx, key, messages.Reason_REASON_LOAD_FAILED, errSlot)
	default: // what is in its pages is as it was
		table, _ := p.core.Table(key)
		p.spawn(ctx, SlotConfig{Store: p.store, Key: key, File: p.known[key].file, Pages: table.Pages})
	}
}
