package members

import (
	"context"
	"sync"
	"testing"
	"time"

	"troupe/actors/supervise"
	"troupe/testkit"
	"troupe/testkit/clock"
)

// stepTime is the time between two ticks of a node.
const stepTime = 100 * time.Millisecond

// stepLimit bounds the steps until a state is reached. No state takes a tenth of it.
const stepLimit = 3000

// nodeTime is the runtime of one node. Its clock is that of all nodes of a test. It knows what the
// node waits for, so that the test advances the clock only while no node works.
type nodeTime struct {
	*clock.Clock

	mu       sync.Mutex
	requests int       // in flight
	due      time.Time // of the next tick
	pause    time.Time // end of the pause of a request that will be repeated
}

func (r *nodeTime) After(d time.Duration) <-chan time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.Now().Add(d)
	if r.requests > 0 {
		r.pause = at
	} else if at.After(r.due) {
		r.due = at
	}
	return r.Clock.After(d)
}

// AfterFunc implements supervise.Runtime. The node starts the timer of its ticks with it.
func (r *nodeTime) AfterFunc(d time.Duration, f func()) supervise.Timer {
	r.mu.Lock()
	r.due = r.Now().Add(d)
	r.mu.Unlock()
	return r.Clock.AfterFunc(d, f)
}

func (r *nodeTime) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	r.count(1)
	ctx, cancel := r.Clock.WithTimeout(ctx, d)
	end := sync.OnceFunc(func() { r.count(-1) })
	return ctx, func() { cancel(); end() }
}

func (r *nodeTime) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests += n
}

// idle reports whether the node waits only for the clock.
func (n *node) idle() bool {
	r := n.time
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	if r.pause.After(now) {
		return true
	}
	return r.requests == 0 && len(n.wake) == 0 && r.due.After(now)
}

// settled reports whether all nodes are idle and have received the new renewals of the others. It
// ignores the nodes that the test has stopped or cut off.
func (s *natsServer) settled() bool {
	renewed := map[string]uint64{}
	for _, n := range s.active() {
		if !n.idle() {
			return false
		}
		if key, revision := n.renewal(); key != "" {
			renewed[key] = revision
		}
	}
	for _, n := range s.active() {
		if n.conn.IsConnected() && !n.hasSeen(renewed) {
			return false
		}
	}
	return true
}

// renewal returns the node's key and its revision, if the node has renewed it at this time.
func (n *node) renewal() (key string, revision uint64) {
	n.Members.mu.Lock()
	defer n.Members.mu.Unlock()
	if n.self == nil || !n.health.lastRenewed.Equal(n.now()) {
		return "", 0
	}
	return memberKey(n.cfg.Name), n.revision
}

// hasSeen reports whether the node knows these revisions or later ones.
func (n *node) hasSeen(revisions map[string]uint64) bool {
	n.Members.mu.Lock()
	defer n.Members.mu.Unlock()
	for key, revision := range revisions {
		if n.view[key].revision < revision {
			return false
		}
	}
	return true
}

func (s *natsServer) active() (all []*node) {
	for _, n := range s.nodes {
		if !n.closed && !n.apart {
			all = append(all, n)
		}
	}
	return all
}

// settle waits until no node works. That takes as long as the NATS server needs.
func (s *natsServer) settle() {
	s.t.Helper()
	if s.clock != nil {
		testkit.Until(s.t, "all nodes are idle", s.settled)
	}
}

// step lets the nodes finish what they do and advances the clock by one tick.
func (s *natsServer) step() {
	s.t.Helper()
	s.settle()
	s.clock.Advance(stepTime)
}

// until advances the clock until a state is reached.
func (s *natsServer) until(what string, ok func() bool) {
	s.t.Helper()
	if s.clock == nil {
		testkit.Until(s.t, what, ok)
		return
	}
	for range stepLimit {
		if ok() {
			return
		}
		s.step()
	}
	s.t.Fatalf("not within %s of the clock: %s", stepLimit*stepTime, what)
}

// join makes the node a member, and advances the clock meanwhile.
func (n *node) join(t testing.TB) error {
	t.Helper()
	joined := make(chan error, 1)
	go func() { joined <- n.Join(t.Context(), n.address) }()
	n.server.until(n.cfg.Name+" has joined", func() bool { return len(joined) == 1 })
	return <-joined
}
