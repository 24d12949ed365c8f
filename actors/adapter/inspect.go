package adapter

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/lora"
	"troupe/engine"
	"troupe/messages"
)

// know makes an adapter known to the machine, which may then request an inspection of its folder.
func (p *pool) know(spec *messages.AdapterSpec) *adapterEntry {
	key := spec.Key()
	if p.known[key] == nil {
		p.known[key] = &adapterEntry{}
	}
	p.known[key].spec = spec
	p.machine.Inspect(key)
	return p.known[key]
}

// inspect starts a job that finds out the size of an adapter.
func (p *pool) inspect(ctx actor.Context, key string) {
	store, incarnation, name, path := p.store, p.incarnation, p.name(key), p.known[key].spec.GetPath()
	supervise.Job(ctx, p.lifetime,
		func(context.Context) (engine.AdapterFile, error) { return store.Inspect(name, path) },
		func(file engine.AdapterFile, err error) any { return &inspected{incarnation, key, file, err} })
}

func (p *pool) onInspected(ctx actor.Context, msg *inspected) {
	k, ok := p.known[msg.key]
	if msg.incarnation != p.incarnation || !ok {
		return
	}
	var why *lora.Refusal
	if msg.err != nil {
		k.lastFailure = reasonOf(msg.err)
		why = p.machine.InspectFailed(msg.key, msg.err)
	} else {
		k.file = msg.file
		why = p.machine.Inspected(msg.key, msg.file.Layout)
	}
	p.perform(ctx)
	if why != nil {
		delete(p.known, msg.key)
		p.Log.Warn().Str("adapter", msg.key).Str("why", why.Detail).Msg("adapter refused")
	}
	if k.requested {
		p.machine.Requested(msg.key, supervise.Now(ctx))
	}
}
