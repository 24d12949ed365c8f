package replica

import (
	"fmt"
	"sync"

	"troupe/engine"
)

// gates holds the gates that engine steps pass, by number. It is safe for concurrent use.
type gates struct {
	mu  sync.Mutex
	all map[uint64]engine.Gate
}

func (g *gates) put(number uint64, gate engine.Gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all[number] = gate
}

func (g *gates) drop(number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, number)
}

// find implements EngineConfig.Gate.
func (g *gates) find(number uint64) (engine.Gate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := g.all[number]
	if gate == nil {
		return nil, fmt.Errorf("restore %d has ended", number)
	}
	return gate, nil
}
