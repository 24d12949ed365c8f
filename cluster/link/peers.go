package link

import (
	"maps"
	"sync"
	"sync/atomic"
)

// roster knows which addresses can be reached: those of members, and those whose node has opened a stream to us. A node that
// has just joined may ask us something before we have heard of it, and needs our answer.
type roster struct {
	mu       sync.Mutex
	members  map[string]bool
	greeters map[*inbound]string // open stream → address of its peer
	closed   bool

	addresses atomic.Pointer[map[string]bool] // of both; replaced, never changed
}

// reachable is asked for each message.
func (r *roster) reachable(address string) bool {
	now := r.addresses.Load()
	return now != nil && (*now)[address]
}

// set replaces the members. It returns which have left, and the streams that they had opened; they count no more.
func (r *roster) set(addresses []string) (left []string, streams []*inbound) {
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
	for in, a := range r.greeters {
		if before[a] && !r.members[a] {
			delete(r.greeters, in)
			streams = append(streams, in)
		}
	}
	r.publish()
	return left, streams
}

func (r *roster) greet(in *inbound, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.greeters == nil {
		r.greeters = map[*inbound]string{}
	}
	r.greeters[in] = address
	r.publish()
}

// part forgets a stream that has ended. It reports whether that is news: the stream counted until now.
func (r *roster) part(in *inbound) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, counted := r.greeters[in]
	delete(r.greeters, in)
	r.publish()
	return counted
}

// close makes every address unreachable, for good, and returns which were reachable.
func (r *roster) close() (left []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.addresses.Load(); now != nil {
		for a := range *now {
			left = append(left, a)
		}
	}
	r.members, r.greeters, r.closed = nil, nil, true
	r.publish()
	return left
}

func (r *roster) publish() {
	now := make(map[string]bool, len(r.members)+len(r.greeters))
	maps.Copy(now, r.members)
	for _, a := range r.greeters {
		now[a] = true
	}
	r.addresses.Store(&now)
}
