package adapter

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
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
	refused := p.registerInspected(ctx, msg, k)
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

func (p *pool) registerInspected(ctx actor.Context, msg *inspected, k *adapterEntry) *messages.Refused {
	if msg.err != nil {
		return &messages.Refused{Reason: reasonOf(msg.err), Detail: "adapter " + msg.key + ": " + msg.err.Error()}
	}
	if why := p.machine.Register(msg.key, msg.file.Layout); why != nil {
		return refusedByPool(why)
	}
	k.file = msg.file
	p.machine.Requested(msg.key, supervise.Now(ctx))
	return nil
}
