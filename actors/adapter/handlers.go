package adapter

import (
	"context"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/core/lora"
	"troupe/engine"
	"troupe/messages"
)

// onStarted recovers the adapters that the previous incarnation left in memory.
func (p *pool) onStarted(ctx actor.Context) {
	p.lifetime, p.cancel = context.WithCancel(context.Background())
	p.known, p.pins = make(map[string]*adapterEntry), make(map[string]string)
	p.slots, p.slotKeys = make(map[string]*actor.PID), make(map[string]string)
	store, err := p.Open()
	if err != nil {
		panic(err)
	}
	p.store = store
	p.machine = lora.NewPool(lora.Config{Pages: store.Pages(), Grow: p.GPU != nil})
	for _, h := range store.Held() {
		if p.registerHeld(h.Key, h.File); !p.machine.Recover(h.Key, h.Pages) {
			panic("adapter: pages of " + h.Key + " are used twice")
		}
		p.spawn(ctx, SlotConfig{Store: store, Name: p.name(h.Key), File: h.File, Pages: h.Pages})
	}
	ctx.Request(ctx.Parent(), &messages.AdaptersReady{Incarnation: p.incarnation,
		Bytes: uint64(len(store.Pages())) * hbm.PageBytes})
	supervise.After(ctx, lora.TickEvery, &prefetch{p.incarnation})
}

// registerHeld registers an adapter that is in memory.
func (p *pool) registerHeld(key string, file engine.AdapterFile) {
	if p.known[key] == nil {
		p.known[key] = &adapterEntry{spec: messages.AdapterOf(key), file: file}
		p.machine.Register(key, file.Layout)
	}
}

func (p *pool) onEnding() {
	p.phase = ending
	if p.cancel != nil { // nil before Started
		p.cancel()
	}
}

func (p *pool) onAdopt(ctx actor.Context, msg *messages.AdoptPins) {
	if msg.GetIncarnation() != p.incarnation || p.phase != recovering {
		return
	}
	p.phase = serving
	for _, pin := range msg.GetPins() {
		p.onPin(ctx, pin)
	}
	p.hostNews = p.store.HostNews()
	p.notify(ctx, slices.Sorted(maps.Keys(p.known))...)
	p.sendChanges(ctx)
	p.onReportPages(ctx, &reportPages{p.incarnation})
}

// onPrefetch prefetches popular adapters into memory that was not used recently. It also sends
// changed counters to the replica, and which adapters have a copy in host memory.
func (p *pool) onPrefetch(ctx actor.Context, msg *prefetch) {
	if msg.incarnation != p.incarnation {
		return
	}
	if p.phase == serving {
		p.perform(ctx, p.machine.Tick(supervise.Now(ctx))...)
	}
	if news := p.store.HostNews(); p.phase == serving && news != p.hostNews {
		p.hostNews = news
		p.notify(ctx, slices.Sorted(maps.Keys(p.known))...)
	}
	if p.phase == serving && p.reported != p.machine.Stats() {
		p.sendChanges(ctx)
	}
	supervise.After(ctx, lora.TickEvery, msg)
}

func (p *pool) onRequested(ctx actor.Context, msg *messages.AdapterRequested) {
	p.know(msg.GetAdapter()).requested = true
	p.machine.Requested(msg.GetAdapter().Key(), supervise.Now(ctx))
	p.perform(ctx)
}

// onPrefetchAhead takes over which adapters the planner wants on the device. The next ticks load them.
func (p *pool) onPrefetchAhead(ctx actor.Context, msg *messages.PrefetchAdapters) {
	var all []lora.Wanted
	for _, a := range msg.GetAdapters() {
		p.know(a.GetAdapter())
		all = append(all, lora.Wanted{ID: a.GetAdapter().Key(), Score: a.GetUses()})
	}
	p.machine.Want(all, supervise.Now(ctx))
	p.perform(ctx)
}

func (p *pool) onForget(ctx actor.Context, msg *messages.ForgetAdapter) {
	key := msg.GetAdapter().Key()
	p.machine.Delete(key)
	p.perform(ctx, key)
}
