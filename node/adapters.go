package node

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/adapter"
	"troupe/engine"
	"troupe/engine/residency"
)

// adaptersAhead is how many adapters a pool loads ahead of need at once.
const adaptersAhead = 10

// adaptersProps is the recipe for the pool of adapters of a lease.
func (n *Node) adaptersProps(gpu, lease string) *actor.Props {
	return n.as("adapters", adapter.Props(adapter.Config{
		Open:      func() (adapter.Store, error) { return n.adapters(gpu, lease) },
		HostBytes: n.cfg.AdapterHostBytes, Prefetch: adaptersAhead,
		Slot:     func(cfg adapter.SlotConfig) *actor.Props { return n.asOf("slot", cfg.Key, adapter.SlotProps(cfg)) },
		Strategy: n.strategy(), Log: n.cfg.Log.With().Str("lease", lease).Logger(),
	}))
}

// adapters is the memory for the adapters of a lease.
func (n *Node) adapters(gpu, lease string) (*residency.AdapterCache, error) {
	h, err := n.holder(gpu)
	if err != nil {
		return nil, err
	}
	return h.Adapters(lease)
}

// adapter is one that is on the device.
func (n *Node) adapter(gpu, lease, key string) (*engine.Adapter, error) {
	store, err := n.adapters(gpu, lease)
	if err != nil {
		return nil, err
	}
	a, ok := store.Find(key)
	if !ok {
		return nil, fmt.Errorf("adapter %s is not on %s, and a step is to read it", key, gpu)
	}
	return a, nil
}
