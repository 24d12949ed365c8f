package link

import "sync"

// outbox queues envelopes for one connection.
//
// Invariant: take returns every envelope that put accepted; after close, put accepts none.
type outbox struct {
	mu     sync.Mutex
	queued []envelope
	closed bool
	wake   chan struct{} // capacity 1; signals that the queue is not empty or was closed
}

// put queues an envelope. It returns false if the outbox is closed.
func (o *outbox) put(l envelope) bool {
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

// take waits for envelopes and returns all of them, or none once the outbox is closed and empty. It
// reuses the slice of the previous take.
func (o *outbox) take(before []envelope) []envelope {
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
