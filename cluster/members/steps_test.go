package members

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

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
	conn *nats.Conn

	mu       sync.Mutex
	requests map[*request]struct{} // in flight
	due      time.Time             // of the next tick, or later
	pause    time.Time             // end of the pause of a request that will be repeated
}

// request is a request to NATS, or several that share a timeout.
type request struct{ connection uint64 } // number of the connection at its start

// After implements supervise.Runtime. Like AfterFunc, it starts the timer before it is known that the
// node waits for it. Otherwise the test could advance the clock in between, past the time at which
// the timer was to fire, and would then wait for a timer that waits for the clock.
func (r *nodeTime) After(d time.Duration) <-chan time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	fired := r.Clock.After(d)
	at := r.Now().Add(d)
	if len(r.requests) > 0 {
		r.pause = at
	} else if at.After(r.due) {
		r.due = at
	}
	return fired
}

// AfterFunc implements supervise.Runtime. The node starts the timer of its ticks with it.
func (r *nodeTime) AfterFunc(d time.Duration, f func()) supervise.Timer {
	r.mu.Lock()
	defer r.mu.Unlock()
	timer := r.Clock.AfterFunc(d, f)
	r.due = r.Now().Add(d)
	return timer
}

func (r *nodeTime) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	begun := &request{r.connection()}
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := r.Clock.WithTimeout(ctx, d)
	r.requests[begun] = struct{}{}
	return ctx, func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.requests, begun)
	}
}

// connection returns the number of the current connection to NATS.
func (r *nodeTime) connection() uint64 { return r.conn.Stats().Reconnects }

// lost reports whether requests are in flight and all were made before the node reconnected. They
// get no answer, so that the node waits for their timeout.
func (r *nodeTime) lost() bool {
	connection := r.connection()
	r.mu.Lock()
	defer r.mu.Unlock()
	for one := range r.requests {
		if one.connection == connection {
			return false
		}
	}
	return len(r.requests) > 0
}

// idle reports whether the node waits only for the clock.
func (n *node) idle() bool {
	r := n.time
	if r.lost() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	if r.pause.After(now) {
		return true
	}
	return len(r.requests) == 0 && len(n.wake) == 0 && r.due.After(now)
}

// settled reports whether all nodes are idle and have received the new renewals of the others, or
// wait for a request that was lost before they read the bucket again. It ignores the nodes that the
// test has stopped or cut off.
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
		if n.conn.IsConnected() && !n.hasSeen(renewed) && !n.time.lost() {
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
