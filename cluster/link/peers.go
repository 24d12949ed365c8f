package link

import (
	"maps"
	"sync"
	"sync/atomic"
)

// peers tracks the reachable addresses: those of members, and those whose node has opened a stream
// to us. A node that has just joined may send requests before we have heard of it, and it needs the
// replies.
type peers struct {
	mu      sync.Mutex
	members map[string]bool
	streams map[*inbound]string // open stream → address of the peer
	closed  bool

	addresses atomic.Pointer[map[string]bool] // of both; copied on write
}

// reachable reports whether messages may be sent to an address. It is called for each message.
func (r *peers) reachable(address string) bool {
	now := r.addresses.Load()
	return now != nil && (*now)[address]
}

// set replaces the members. It returns those that have left and the streams that they had opened,
// which it removes.
func (r *peers) set(addresses []string) (left []string, streams []*inbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil
	}
	before := r.members
	r.members = make(map[string]bool, len(addresses))
	for _, a := range addresses {
		r.members[a] = true
	}
	for a := range before {
		if !r.members[a] {
			left = append(left, a)
		}
	}
	for in, a := range r.streams {
		if before[a] && !r.members[a] {
			delete(r.streams, in)
			streams = append(streams, in)
		}
	}
	r.publish()
	return left, streams
}

func (r *peers) addStream(in *inbound, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.streams == nil {
		r.streams = map[*inbound]string{}
	}
	r.streams[in] = address
	r.publish()
}

// removeStream removes a stream that has ended and reports whether it was still present.
func (r *peers) removeStream(in *inbound) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, counted := r.streams[in]
	delete(r.streams, in)
	r.publish()
	return counted
}

// close makes every address unreachable for good and returns those that were reachable.
func (r *peers) close() (left []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.addresses.Load(); now != nil {
		for a := range *now {
			left = append(left, a)
		}
	}
	r.members, r.streams, r.closed = nil, nil, true
	r.publish()
	return left
}

func (r *peers) publish() {
	now := make(map[string]bool, len(r.members)+len(r.streams))
	maps.Copy(now, r.members)
	for _, a := range r.streams {
		now[a] = true
	}
	r.addresses.Store(&now)
}
