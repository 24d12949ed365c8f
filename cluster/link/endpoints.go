package link

import "sync"

// endpoints are the connections that we write to. Each address has at most one that takes letters; those that were released
// write out what they have.
type endpoints struct {
	mu     sync.RWMutex
	taking map[string]*outbound   // address → the one that takes letters
	all    map[*outbound]struct{} // until it has ended
	idle   chan struct{}          // closed while all is empty
	closed bool
}

func newEndpoints() endpoints {
	idle := make(chan struct{})
	close(idle)
	return endpoints{taking: map[string]*outbound{}, all: map[*outbound]struct{}{}, idle: idle}
}

// post hands a letter to the connection with its target, and opens it where there is none. It reports false after Stop.
//
// A letter that was taken is written, or answered. A new connection is only asked for once the old one takes nothing more.
func (l *Link) post(m letter) bool {
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
	s := l.endpoints.taking[address]
	l.endpoints.mu.RUnlock()
	if s != nil {
		return s
	}
	l.endpoints.mu.Lock()
	defer l.endpoints.mu.Unlock()
	if s = l.endpoints.taking[address]; s == nil && !l.endpoints.closed {
		s = newOutbound(l, address)
		l.endpoints.add(s)
		l.running.Go(s.run)
	}
	return s
}

func (e *endpoints) add(s *outbound) {
	if len(e.all) == 0 {
		e.idle = make(chan struct{})
	}
	e.taking[s.address], e.all[s] = s, struct{}{}
}

// release has the connection with an address take nothing more.
func (e *endpoints) release(address string) {
	e.mu.Lock()
	s := e.taking[address]
	delete(e.taking, address)
	e.mu.Unlock()
	if s != nil {
		s.outbox.close()
	}
}

// takes reports whether a connection was not released yet.
func (e *endpoints) takes(s *outbound) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.taking[s.address] == s
}

// of returns the connections with an address that have not ended, or all.
func (e *endpoints) of(address string) (found []*outbound) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for s := range e.all {
		if address == "" || s.address == address {
			found = append(found, s)
		}
	}
	return found
}

// ended forgets a connection.
func (e *endpoints) ended(s *outbound) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, s)
	if len(e.all) == 0 {
		close(e.idle)
	}
}

// close releases all connections, and lets none be opened. The channel closes when they have ended.
func (e *endpoints) close() (idle <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, s := range e.taking {
		s.outbox.close()
	}
	clear(e.taking)
	return e.idle
}
