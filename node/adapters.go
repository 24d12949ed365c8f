package node

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/adapter"
	"troupe/engine"
	"troupe/engine/residency"
)

// adapterPrefetches is how many adapters a pool prefetches at once.
const adapterPrefetches = 10

// adaptersProps returns the props of the adapter pool of a lease.
func (n *Node) adaptersProps(gpu, lease string) *actor.Props {
	return n.instrument("adapters", adapter.Props(adapter.Config{
		Open:      func() (adapter.Store, error) { return n.adapterStore(gpu, lease) },
		HostBytes: n.cfg.AdapterHostBytes, Prefetch: adapterPrefetches,
		Slot: func(cfg adapter.SlotConfig) *actor.Props {
			return n.instrumentOf("slot", cfg.Key, adapter.SlotProps(cfg))
		},
		Strategy: n.strategy(), Log: n.cfg.Log.With().Str("lease", lease).Logger(),
	}))
}

// adapterStore returns the device memory for the adapters of a lease.
func (n *Node) adapterStore(gpu, lease string) (*residency.AdapterCache, error) {
	h, err := n.residencyOf(gpu)
	if err != nil {
		return nil, err
	}
	return h.Adapters(lease)
}

// adapterOnDevice returns an adapter that is in device memory.
func (n *Node) adapterOnDevice(gpu, lease, key string) (*engine.Adapter, error) {
	store, err := n.adapterStore(gpu, lease)
	if err != nil {
		return nil, err
	}
	a, ok := store.Find(key)
	if !ok {
		return nil, fmt.Errorf("a step needs adapter %s, which is not on %s", key, gpu)
	}
	return a, nil
}
