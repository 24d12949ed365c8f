package stored

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"troupe/cluster/store"
	"troupe/messages"
)

// Pins is the set of pinned prefixes. It is safe for concurrent use.
type Pins struct {
	mu      sync.Mutex
	version uint64
	byName  map[string]*messages.PinnedPrefix
}

// apply applies a change of the stored pins.
func (p *Pins) apply(c store.PinChange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName == nil {
		p.byName = make(map[string]*messages.PinnedPrefix)
	}
	p.version++
	if delete(p.byName, c.Name); c.Pin != nil {
		p.byName[c.Name] = c.Pin
	}
}

// Of returns the pins of a model, or of all models if model is "", sorted by name, and a version
// that changes when they do.
func (p *Pins) Of(model string) (version uint64, all []*messages.PinnedPrefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pin := range p.byName {
		if model == "" || pin.GetModel() == model {
			all = append(all, pin)
		}
	}
	slices.SortFunc(all, func(a, b *messages.PinnedPrefix) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return p.version, all
}

// PinStore is the part of the store that holds pins.
type PinStore interface {
	WatchPins(ctx context.Context, apply func(store.PinChange)) error
}

// Watch returns a watch that follows the stored pins.
func (p *Pins) Watch(from PinStore) Watch {
	return Watch{Of: "pins", Run: func(ctx context.Context, synced func()) error {
		return from.WatchPins(ctx, func(c store.PinChange) {
			if c.Synced {
				synced()
				return
			}
			p.apply(c)
		})
	}}
}
