package link

import (
	"slices"
	"sync"
)

// endpoints are the outgoing connections. Each address has at most one active connection, which
// accepts envelopes. Released connections only write what they have accepted.
type endpoints struct {
	mu     sync.RWMutex
	active map[string]*outbound // address → the connection that accepts envelopes
	all    []*outbound          // connections that have not ended
	idle   chan struct{}        // closed while all is empty
	closed bool
}

func newEndpoints() endpoints {
	idle := make(chan struct{})
	close(idle)
	return endpoints{active: map[string]*outbound{}, idle: idle}
}

// post queues an envelope on the connection to its target and opens the connection if there is
// none. It returns false after Stop. An accepted envelope is written or answered. A new connection
// is opened only after the old one accepts no more.
func (l *Link) post(m envelope) bool {
	for {
		s := l.endpoint(m.target.Address)
		if s == nil {
			return false
		}
		if s.outbox.put(m) {
			return true
		}
	}
}

func (l *Link) endpoint(address string) *outbound {
	l.endpoints.mu.RLock()
	s := l.endpoints.active[address]
	l.endpoints.mu.RUnlock()
	if s != nil {
		return s
	}
	l.endpoints.mu.Lock()
	defer l.endpoints.mu.Unlock()
	if s = l.endpoints.active[address]; s == nil && !l.endpoints.closed {
		s = newOutbound(l, address)
		l.endpoints.add(s)
		l.goRun(s.run)
	}
	return s
}

func (e *endpoints) add(s *outbound) {
	if len(e.all) == 0 {
		e.idle = make(chan struct{})
	}
	e.active[s.address], e.all = s, append(e.all, s)
}

// release closes the queue of the connection to an address.
func (e *endpoints) release(address string) {
	e.mu.Lock()
	s := e.active[address]
	delete(e.active, address)
	e.mu.Unlock()
	if s != nil {
		s.outbox.close()
	}
}

// isActive reports whether a connection has not been released.
func (e *endpoints) isActive(s *outbound) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.active[s.address] == s
}

// byAddress returns the connections to an address that have not ended. An empty address means all.
func (e *endpoints) byAddress(address string) (found []*outbound) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, s := range e.all {
		if address == "" || s.address == address {
			found = append(found, s)
		}
	}
	return found
}

// ended removes a connection.
func (e *endpoints) ended(s *outbound) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = slices.DeleteFunc(e.all, func(one *outbound) bool { return one == s })
	if len(e.all) == 0 {
		close(e.idle)
	}
}

// close releases all connections and prevents new ones. The returned channel closes when all have
// ended.
func (e *endpoints) close() (idle <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, s := range e.all {
		s.outbox.close()
	}
	clear(e.active)
	return e.idle
}
