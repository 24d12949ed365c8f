package control_test

import (
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"troupe/control"
	"troupe/testkit/clock"
)

// askers are the clocks of the nodes that ask the four nodes of a test. Node c hangs. The clock of an
// asking node stands still until the other three have answered or are known to be unreachable.
type askers struct {
	mu    sync.Mutex
	all   []*askTime
	asked bool // node c was asked
}

// askTime is the runtime of one node.
type askTime struct {
	*clock.Clock
	of    *askers
	round int // of the current request
	ended int // goroutines of this round that have ended
}

func newAskers(t *testing.T, conn *nats.Conn) *askers {
	t.Helper()
	a := &askers{}
	if _, err := conn.Subscribe("troupe.v1.node.c.*", func(*nats.Msg) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = true
		a.expire()
	}); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *askers) runtime() *askTime {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, &askTime{Clock: clock.New(), of: a})
	return a.all[len(a.all)-1]
}

// request begins another round, in which one node asks all.
func (a *askers) request() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = false
	for _, r := range a.all {
		r.round++
		r.ended = 0
	}
}

// expire ends the wait for node c if it is the only one that has not answered. a.mu is held.
func (a *askers) expire() {
	for _, r := range a.all {
		if a.asked && r.ended == 3 {
			r.ended++
			r.Advance(control.NodeTimeout)
		}
	}
}

// Go implements supervise.Runtime. Each node is asked in a goroutine of its own.
func (r *askTime) Go(f func()) {
	r.of.mu.Lock()
	round := r.round
	r.of.mu.Unlock()
	r.Clock.Go(func() {
		f()
		r.of.mu.Lock()
		defer r.of.mu.Unlock()
		if round == r.round {
			r.ended++
			r.of.expire()
		}
	})
}
