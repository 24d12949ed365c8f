package engine

import (
	"fmt"
	"sync"
)

// Gates holds the gates of the restores of one lease, by the numbers that messages carry. The thread that
// copies blocks puts them there, and the thread that runs steps passes them, layer by layer: a message for each
// layer would cost more than it delays. It is safe for concurrent use.
type Gates struct {
	mu  sync.Mutex
	all map[uint64]Gate
}

// Put adds the gate of a restore that begins.
func (g *Gates) Put(number uint64, gate Gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[uint64]Gate)
	}
	g.all[number] = gate
}

// Drop removes the gate of a restore that has ended.
func (g *Gates) Drop(number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, number)
}

// Find returns the gate of a restore.
func (g *Gates) Find(number uint64) (Gate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := g.all[number]
	if gate == nil {
		return nil, fmt.Errorf("restore %d has ended", number)
	}
	return gate, nil
}
