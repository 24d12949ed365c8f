package hierarchy

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/adapter"
	"troupe/messages"
	"troupe/node/query"
)

// adapters returns the props of the adapter pool of a replica.
func (r Replicas) adapters(b *Base, spec *messages.ReplicaSpec, handle string) *actor.Props {
	return b.Instrument("adapters", adapter.Props(adapter.Config{
		GPU: b.pid(query.GPU(spec.GetGpu())), Lease: spec.GetName(), Model: spec.GetModel(),
		Open:      func() (adapter.Store, error) { return r.GPUs.Adapters(spec.GetGpu(), handle) },
		HostCache: r.HostCache.adapters(b),
		OnLoaded: func(key string) {
			if r.AdapterLoaded != nil {
				r.AdapterLoaded(spec.GetModel(), key)
			}
		},
		Slot: func(cfg adapter.SlotConfig) *actor.Props {
			return b.instrumentOf("slot", cfg.Name.Adapter, adapter.SlotProps(cfg))
		},
		Strategy: b.Strategy(), Log: b.Log.With().Str("lease", spec.GetName()).Logger(),
	}))
}
