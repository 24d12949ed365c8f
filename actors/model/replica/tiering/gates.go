package tiering

import (
	"fmt"
	"sync"

	"troupe/engine"
)

// Gates holds the gates that engine steps pass, by number. It is safe for concurrent use.
type Gates struct {
	mu  sync.Mutex
	all map[uint64]engine.Gate
}

func (g *Gates) put(number uint64, gate engine.Gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[uint64]engine.Gate)
	}
	g.all[number] = gate
}

func (g *Gates) drop(number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, number)
}

// Find returns a gate.
func (g *Gates) Find(number uint64) (engine.Gate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := g.all[number]
	if gate == nil {
		return nil, fmt.Errorf("restore %d has ended", number)
	}
	return gate, nil
}
