package adapter

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/messages"
)

// perform carries out the machine's actions, in order, and reports the affected adapters to the
// replica.
func (p *pool) perform(ctx actor.Context, touched ...string) {
	for actions := p.machine.Actions(); len(actions) > 0; actions = p.machine.Actions() {
		for _, action := range actions {
			touched = append(touched, p.performAction(ctx, action))
		}
	}
	for _, key := range touched {
		p.notify(ctx, key)
	}
}

// performAction carries out one action and returns the key of its adapter.
func (p *pool) performAction(ctx actor.Context, action lora.Action) (key string) {
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

// drop frees host memory.
func (p *pool) drop(key string) {
	if err := p.store.Drop(key); err != nil {
		p.Log.Warn().Err(err).Str("adapter", key).Msg("freeing host memory of adapter failed")
	}
}
