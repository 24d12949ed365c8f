package gateway

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Calls is the table of open calls by ID, and the demand that calls have shown. It is safe for concurrent
// use.
type Calls struct {
	mu     sync.Mutex
	open   map[string]*Call
	demand demandRecord
}

// NewCalls returns an empty table.
func NewCalls() *Calls { return &Calls{open: make(map[string]*Call)} }

func (c *Calls) add(call *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[call.ID] = call
}

func (c *Calls) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
}

func (c *Calls) get(id string) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id]
}

func (c *Calls) all() []*Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.open), func(a, b *Call) int { return strings.Compare(a.ID, b.ID) })
}

// Open returns the number of open calls.
func (c *Calls) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}
