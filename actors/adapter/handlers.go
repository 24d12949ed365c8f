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
