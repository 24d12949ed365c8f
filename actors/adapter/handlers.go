package adapter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/lora"
	"troupe/engine"
	"troupe/messages"
)

// retryRoom is when to ask again for an adapter that found no room. Whoever knows when something was given back need not wait for it.
const retryRoom = 100 * time.Millisecond

// find returns an adapter that somebody names, and has its folder inspected where that was not done.
func (p *pool) find(ctx actor.Context, spec *messages.AdapterSpec) *known {
	key := spec.Key()
	k, ok := p.known[key]
	if !ok {
		k = &known{}
		p.known[key] = k
	}
	k.spec = spec
	if k.file.Layout == nil && !k.opening {
		k.opening = true
		store, incarnation, path := p.store, p.incarnation, spec.GetPath()
		supervise.Job(ctx, p.life,
			func(context.Context) (engine.AdapterFile, error) { return store.Inspect(path) },
			func(file engine.AdapterFile, err error) any { return &inspected{incarnation, key, file, err} })
	}
	return k
}

func (p *pool) onPin(ctx actor.Context, msg *messages.PinAdapter) {
	if k := p.find(ctx, msg.GetAdapter()); k.opening {
		k.askers = append(k.askers, msg)
		return
	}
	p.pin(ctx, msg)
}

// onInspected registers an adapter, or refuses whoever asked for it.
func (p *pool) onInspected(ctx actor.Context, msg *inspected) {
	if msg.incarnation != p.incarnation {
		return
	}
	k, ok := p.known[msg.key]
	if !ok {
		return
	}
	askers := k.askers
	k.opening, k.askers = false, nil
	refused := p.register(msg, k)
	if refused != nil {
		delete(p.known, msg.key)
		p.Log.Warn().Str("adapter", msg.key).Str("why", refused.GetDetail()).Msg("adapter refused")
	}
	for _, a := range askers {
		if refused != nil {
			p.refuse(ctx, a.GetRequestId(), refused)
			continue
		}
		p.pin(ctx, a)
	}
}

func (p *pool) register(msg *inspected, k *known) *messages.Refused {
	if msg.err != nil {
		return &messages.Refused{Reason: reasonOf(msg.err), Detail: "adapter " + msg.key + ": " + msg.err.Error()}
	}
	if why := p.core.Register(msg.key, msg.file.Layout); why != nil {
		return refusedByPool(why)
	}
	k.file = msg.file
	p.core.Requested(msg.key, time.Now())
	return nil
}

// pin holds an adapter for a request; the answer comes when it is there.
func (p *pool) pin(ctx actor.Context, msg *messages.PinAdapter) {
	id, key := msg.GetRequestId(), msg.GetAdapter().Key()
	state, why := p.core.Pin(id, key)
	if why != nil {
		p.refuse(ctx, id, refusedByPool(why))
		return
	}
	p.pins[id] = key
	if state == lora.Active {
		p.pinned(ctx, id, key)
	}
	p.carry(ctx, key)
}

func (p *pool) pinned(ctx actor.Context, id, key string) {
	ctx.Request(ctx.Parent(), &messages.PinAdapterResult{RequestId: id, Outcome: &messages.PinAdapterResult_Pinned{
		Pinned: &messages.AdapterPinned{Adapter: key, Pages: uint32(p.known[key].file.Layout.Pages())},
	}})
}

func (p *pool) refuse(ctx actor.Context, id string, why *messages.Refused) {
	ctx.Request(ctx.Parent(), &messages.PinAdapterResult{RequestId: id, Outcome: &messages.PinAdapterResult_Refused{Refused: why}})
}

func (p *pool) onUnpin(ctx actor.Context, msg *messages.UnpinAdapter) {
	id := msg.GetRequestId()
	key, ok := p.pins[id]
	if !ok {
		p.forgetAsker(id)
		return
	}
	delete(p.pins, id)
	p.core.Unpin(id)
	p.carry(ctx, key)
}

// forgetAsker: it ended before its adapter's folder was inspected.
func (p *pool) forgetAsker(id string) {
	for _, k := range p.known {
		for i, a := range k.askers {
			if a.GetRequestId() == id {
				k.askers = append(k.askers[:i:i], k.askers[i+1:]...)
				return
			}
		}
	}
}

func (p *pool) onRequested(ctx actor.Context, msg *messages.AdapterRequested) {
	p.news = true
	p.find(ctx, msg.GetAdapter())
	p.core.Requested(msg.GetAdapter().Key(), time.Now())
}

func (p *pool) onForget(ctx actor.Context, msg *messages.ForgetAdapter) {
	key := msg.GetAdapter().Key()
	p.core.Delete(key)
	p.carry(ctx, key)
}

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

// tell tells the replica where an adapter is, if that has changed.
func (p *pool) tell(ctx actor.Context, key string) {
	k := p.known[key]
	if k == nil || k.file.Layout == nil {
		return
	}
	if !p.core.Registered(key) {
		delete(p.known, key)
	}
	var now lora.Where
	if now.State, now.Tier = p.core.State(key); now == k.told {
		return
	}
	k.told = now
	p.change(ctx, &messages.AdapterHeld{
		Name: k.spec.GetName(), Revision: k.spec.GetRevision(), State: states[now.State], Location: locations[now.Tier],
	})
}

// change tells the replica which adapters are elsewhere now, and what was counted.
func (p *pool) change(ctx actor.Context, held ...*messages.AdapterHeld) {
	did := p.core.Stats()
	p.told = did
	ctx.Request(ctx.Parent(), &messages.AdaptersChanged{Incarnation: p.incarnation, Adapters: held, Counts: &messages.AdapterCounts{
		Pages: uint32(len(p.store.Pages())), PagesFree: uint32(p.core.Left()), Hits: did.Hits, Loads: did.Loads, Reads: did.Reads,
		Prefetches: did.Prefetches, Evictions: did.Evictions, Failures: did.Failures,
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

var reasons = map[lora.Reason]messages.Reason{
	lora.Unknown:   messages.Reason_REASON_NOT_FOUND,
	lora.Leaving:   messages.Reason_REASON_NOT_FOUND,
	lora.NoRoom:    messages.Reason_REASON_QUEUE_FULL,
	lora.TooLarge:  messages.Reason_REASON_NO_MEMORY,
	lora.Failed:    messages.Reason_REASON_LOAD_FAILED,
	lora.Duplicate: messages.Reason_REASON_CONFLICT,
}

func refusedByPool(why *lora.Refusal) *messages.Refused {
	r := &messages.Refused{Reason: reasons[why.Reason], Detail: why.Detail}
	if why.Reason == lora.NoRoom {
		r.RetryAfter = durationpb.New(retryRoom)
	}
	return r
}
