package stored

import (
	"context"
	"slices"
	"sync"

	"troupe/cluster/store"
)

// Drained is the set of nodes that an operator drains. It is safe for concurrent use.
type Drained struct {
	mu    sync.Mutex
	nodes map[string]bool
}

// Names returns the names of the nodes, sorted.
func (d *Drained) Names() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.nodes {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Has reports whether a node is drained.
func (d *Drained) Has(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[node]
}

// NodeStore is the part of the store that holds operators' settings for nodes.
type NodeStore interface {
	WatchNodes(ctx context.Context, apply func(store.NodeChange)) error
}

// Watch returns a watch that follows the stored nodes. It calls changed after each change.
func (d *Drained) Watch(from NodeStore, changed func()) Watch {
	return Watch{Of: "nodes", Run: func(ctx context.Context, synced func()) error {
		return from.WatchNodes(ctx, func(c store.NodeChange) {
			if c.Synced {
				synced()
				return
			}
			d.apply(c)
			changed()
		})
	}}
}

func (d *Drained) apply(c store.NodeChange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nodes == nil {
		d.nodes = make(map[string]bool)
	}
	if delete(d.nodes, c.Name); c.Spec.GetDraining() {
		d.nodes[c.Name] = true
	}
}
