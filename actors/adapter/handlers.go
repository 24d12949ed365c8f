package adapter

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/lora"
	"troupe/engine"
	"troupe/messages"
)

// entry returns the entry of an adapter, and starts the inspection of its folder if necessary.
func (p *pool) entry(ctx actor.Context, spec *messages.AdapterSpec) *adapterEntry {
	key := spec.Key()
	k, ok := p.known[key]
	if !ok {
		k = &adapterEntry{}
		p.known[key] = k
	}
	k.spec = spec
	if k.file.Layout == nil && !k.inspecting {
		k.inspecting = true
		store, incarnation, path := p.store, p.incarnation, spec.GetPath()
		supervise.Job(ctx, p.lifetime,
			func(context.Context) (engine.AdapterFile, error) { return store.Inspect(path) },
			func(file engine.AdapterFile, err error) any { return &inspected{incarnation, key, file, err} })
	}
	return k
}

func (p *pool) onPin(ctx actor.Context, msg *messages.PinAdapter) {
	if k := p.entry(ctx, msg.GetAdapter()); k.inspecting {
		k.waiting = append(k.waiting, msg)
		return
	}
	p.pin(ctx, msg)
}

// onInspected registers an adapter, or refuses the pins that wait for it.
func (p *pool) onInspected(ctx actor.Context, msg *inspected) {
	if msg.incarnation != p.incarnation {
		return
	}
	k, ok := p.known[msg.key]
	if !ok {
		return
	}
	waiting := k.waiting
	k.inspecting, k.waiting = false, nil
	refused := p.registerInspected(msg, k)
	if refused != nil {
		delete(p.known, msg.key)
		p.Log.Warn().Str("adapter", msg.key).Str("why", refused.GetDetail()).Msg("adapter refused")
	}
	for _, a := range waiting {
		if refused != nil {
			p.refuse(ctx, a.GetRequestId(), refused)
			continue
		}
		p.pin(ctx, a)
	}
}

func (p *pool) registerInspected(msg *inspected, k *adapterEntry) *messages.Refused {
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

// pin pins an adapter for a request. The result follows when the adapter is loaded.
func (p *pool) pin(ctx actor.Context, msg *messages.PinAdapter) {
	id, key := msg.GetRequestId(), msg.GetAdapter().Key()
	state, why := p.core.Pin(id, key)
	if why != nil {
		p.refuse(ctx, id, refusedByPool(why))
		return
	}
	p.pins[id] = key
	if state == lora.Active {
		p.sendPinned(ctx, id, key)
	}
	p.execute(ctx, key)
}

func (p *pool) sendPinned(ctx actor.Context, id, key string) {
	ctx.Request(ctx.Parent(), &messages.PinAdapterResult{RequestId: id, Outcome: &messages.PinAdapterResult_Pinned{
		Pinned: &messages.AdapterPinned{Adapter: key, Pages: uint32(p.known[key].file.Layout.Pages())},
	}})
}

func (p *pool) refuse(ctx actor.Context, id string, why *messages.Refused) {
	ctx.Request(ctx.Parent(), &messages.PinAdapterResult{RequestId: id,
		Outcome: &messages.PinAdapterResult_Refused{Refused: why}})
}

func (p *pool) onUnpin(ctx actor.Context, msg *messages.UnpinAdapter) {
	id := msg.GetRequestId()
	key, ok := p.pins[id]
	if !ok {
		p.dropWaiting(id)
		return
	}
	delete(p.pins, id)
	p.core.Unpin(id)
	p.execute(ctx, key)
}

// dropWaiting removes a request that ended before its adapter's folder was inspected.
func (p *pool) dropWaiting(id string) {
	for _, k := range p.known {
		for i, a := range k.waiting {
			if a.GetRequestId() == id {
				k.waiting = append(k.waiting[:i:i], k.waiting[i+1:]...)
				return
			}
		}
	}
}

func (p *pool) onRequested(ctx actor.Context, msg *messages.AdapterRequested) {
	p.requestedSince = true
	p.entry(ctx, msg.GetAdapter())
	p.core.Requested(msg.GetAdapter().Key(), time.Now())
}

func (p *pool) onForget(ctx actor.Context, msg *messages.ForgetAdapter) {
	key := msg.GetAdapter().Key()
	p.core.Delete(key)
	p.execute(ctx, key)
}
