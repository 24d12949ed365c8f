package link

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// peers tracks the reachable addresses: those of members, and those whose node has opened a stream
// to us. A node that has just joined may send requests before we have heard of it, and it needs the
// replies.
type peers struct {
	mu      sync.Mutex
	members map[string]bool
	streams []*inbound // open
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
	for _, a := range slices.Sorted(maps.Keys(before)) {
		if !r.members[a] {
			left = append(left, a)
		}
	}
	r.streams = slices.DeleteFunc(r.streams, func(in *inbound) bool {
		gone := before[in.peer] && !r.members[in.peer]
		if gone {
			streams = append(streams, in)
		}
		return gone
	})
	r.publish()
	return left, streams
}

// addStream adds a stream whose peer has announced its address.
func (r *peers) addStream(in *inbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.streams = append(r.streams, in)
	r.publish()
}

// removeStream removes a stream that has ended and reports whether it was still present.
func (r *peers) removeStream(in *inbound) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.streams, in)
	if i < 0 {
		return false
	}
	r.streams = slices.Delete(r.streams, i, i+1)
	r.publish()
	return true
}

// close makes every address unreachable for good and returns those that were reachable.
func (r *peers) close() (left []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.addresses.Load(); now != nil {
		left = slices.Sorted(maps.Keys(*now))
	}
	r.members, r.streams, r.closed = nil, nil, true
	r.publish()
	return left
}

func (r *peers) publish() {
	now := make(map[string]bool, len(r.members)+len(r.streams))
	maps.Copy(now, r.members)
	for _, in := range r.streams {
		now[in.peer] = true
	}
	r.addresses.Store(&now)
}
