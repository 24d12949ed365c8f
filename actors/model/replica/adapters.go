package replica

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/wire"
	core "troupe/core/replica"
	"troupe/messages"
)

// addAdapter records the spec of an adapter, which the pool needs.
func (r *replica) addAdapter(spec *messages.AdapterSpec) {
	if spec != nil {
		r.adapterSpecs[spec.Key()] = spec
	}
}

func (r *replica) leasePages(ctx actor.Context) {
	ctx.Request(r.GPU, &messages.LeaseAdapters{RequestId: r.Spec.GetName(), Lease: r.model.GetLease(),
		Pages: r.Spec.GetAdapterPages()})
}

func (r *replica) onAdaptersLeased(ctx actor.Context, msg *messages.LeaseAdaptersResult) {
	if msg.GetRefused() != nil {
		r.Perform(ctx, r.machine.LeaseRefused())
		return
	}
	r.Perform(ctx, r.machine.Leased())
}

func (r *replica) onPoolReady(ctx actor.Context, msg *messages.AdaptersReady) {
	r.poolIncarnation = msg.GetIncarnation()
	r.Perform(ctx, r.machine.PoolReady())
}

func (r *replica) adoptPins(ctx actor.Context, pins []core.Pin) {
	adopt := &messages.AdoptPins{Incarnation: r.poolIncarnation}
	for _, p := range pins {
		adopt.Pins = append(adopt.Pins, r.pinAdapter(p))
	}
	ctx.Send(r.adapters, adopt)
}

func (r *replica) pinAdapter(p core.Pin) *messages.PinAdapter {
	return &messages.PinAdapter{RequestId: p.Name, Adapter: r.adapterSpecs[p.Adapter]}
}

func (r *replica) onAdaptersChanged(ctx actor.Context, msg *messages.AdaptersChanged) {
	if msg.GetIncarnation() == r.poolIncarnation {
		r.adapterCounts = msg.GetCounts()
		r.Perform(ctx, r.machine.AdaptersChanged(wire.Locations(msg.GetAdapters())))
	}
}

func (r *replica) onApplyAdapter(ctx actor.Context, msg *messages.ApplyAdapter) {
	spec := msg.GetAdapter()
	if spec.GetPinned() {
		r.addAdapter(spec)
	}
	r.Perform(ctx, r.machine.Apply(wire.AdapterOf(spec), spec.GetPinned()))
}

func (r *replica) onPrefetch(ctx actor.Context, msg *messages.PrefetchAdapters) {
	r.ahead = msg
	var all []core.Adapter
	for _, a := range msg.GetAdapters() {
		all = append(all, wire.AdapterOf(a.GetAdapter()))
	}
	r.Perform(ctx, r.machine.Prefetch(all))
}

// prefetchOf returns the part of the planner's last command that has some adapters.
func (r *replica) prefetchOf(keys []string) *messages.PrefetchAdapters {
	out := &messages.PrefetchAdapters{}
	for _, a := range r.ahead.GetAdapters() {
		if slices.Contains(keys, a.GetAdapter().Key()) {
			out.Adapters = append(out.Adapters, a)
		}
	}
	return out
}
