package link

import "sync"

// outbox are the letters that wait for one connection.
//
// Invariant: what put has taken, take returns; nothing is put once it is closed.
type outbox struct {
	mu     sync.Mutex
	queued []letter
	closed bool
	wake   chan struct{} // holds one: there is something, or it is closed
}

// put reports false where the outbox is closed.
func (o *outbox) put(l letter) bool {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return false
	}
	o.queued = append(o.queued, l)
	first := len(o.queued) == 1
	o.mu.Unlock()
	if first {
		o.ring()
	}
	return true
}

func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.ring()
}

func (o *outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take waits for letters, and returns all; none when the outbox is closed and empty. It keeps the slice that it took before.
func (o *outbox) take(before []letter) []letter {
	for {
		o.mu.Lock()
		if len(o.queued) > 0 || o.closed {
			all := o.queued
			clear(before)
			o.queued = before[:0]
			o.mu.Unlock()
			return all
		}
		o.mu.Unlock()
		<-o.wake
	}
}
