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
	p.notify(ctx, touched...)
}

// performAction carries out one action and returns the key of its adapter; empty: it has none.
func (p *pool) performAction(ctx actor.Context, action lora.Action) (key string) {
	switch a := action.(type) {
	case lora.Inspect:
		p.inspect(ctx, a.Adapter)
		return a.Adapter
	case lora.Load:
		p.spawn(ctx, SlotConfig{Store: p.store, Name: p.name(a.Adapter), File: p.known[a.Adapter].file,
			Pages: a.Table.Pages, Path: p.known[a.Adapter].spec.GetPath(), HostCache: p.HostCache})
		return a.Adapter
	case lora.Evict:
		ctx.Stop(p.slots[a.Adapter])
		return a.Adapter
	case lora.Grow:
		p.requestPages(ctx)
		return ""
	case lora.GiveBack:
		p.store.GiveBack(a.Pages)
		return ""
	case lora.Shrunk:
		ctx.Request(p.GPU, &messages.AdaptersShrunk{Lease: p.Lease, Attempt: p.shrink})
		return ""
	case lora.Ready:
		p.sendPinned(ctx, a.Request, a.Adapter)
		return a.Adapter
	case lora.Lost:
		p.lose(ctx, a)
		return a.Adapter
	}
	panic(fmt.Sprintf("adapter: unknown action %T", action))
}

// spawn starts a slot with the lowest free number.
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
		p.slots[cfg.Name.Adapter], p.slotKeys[pid.GetId()] = pid, cfg.Name.Adapter
		return
	}
}

// lose refuses a request that can no longer get its adapter.
func (p *pool) lose(ctx actor.Context, a lora.Lost) {
	delete(p.pins, a.Request)
	why := refusedByPool(a.Refusal)
	if a.Refusal.Reason == lora.Failed {
		why.Reason = p.known[a.Adapter].lastFailure
	}
	p.refuse(ctx, a.Request, why)
}
