package leadership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world simulates the environment of node a in the property test: the leases, the store, and the
// node's children and attempts, as known from the effects.
type world struct {
	t        *rapid.T
	n        *Node
	now      time.Time
	view     View
	lastTerm uint64
	children map[string]uint64    // deployment -> term of the running child
	attempts map[string]Effect    // deployment -> Acquire or Release in flight
	crashed  map[string]time.Time // deployment -> last crash
	freeFrom map[string]time.Time // deployment -> when a Sync first saw its lease free
}

// TestInvariants plays random events against the machine and checks the invariants of doc.go.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			t: t, n: New("a"), now: time.Unix(1000, 0),
			view:     View{Deployments: map[string]Seen{}, Up: []string{"a", "b"}},
			children: map[string]uint64{}, attempts: map[string]Effect{}, crashed: map[string]time.Time{},
			freeFrom: map[string]time.Time{},
		}
		name := rapid.SampledFrom([]string{"m0", "m1"})
		t.Repeat(map[string]func(*rapid.T){
			"":      func(*rapid.T) { w.check() },
			"sync":  func(*rapid.T) { w.sync() },
			"sync2": func(*rapid.T) { w.sync() },
			"wait": func(t *rapid.T) {
				ms := rapid.SampledFrom([]int{50, 200, 10_000}).Draw(t, "ms")
				w.now = w.now.Add(time.Duration(ms) * time.Millisecond)
			},
			"up": func(t *rapid.T) {
				w.view.Up = rapid.SampledFrom([][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}, {"b"}}).Draw(t, "up")
			},
			"lease": func(t *rapid.T) {
				w.lease(name.Draw(t, "m"), rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "holder"))
			},
			"store":  func(t *rapid.T) { w.change(name.Draw(t, "m"), func(s *Seen) { s.Stored = !s.Stored }) },
			"delete": func(t *rapid.T) { w.change(name.Draw(t, "m"), func(s *Seen) { *s = Seen{} }) },
			"answer": func(t *rapid.T) { w.answer(name.Draw(t, "m"), rapid.Bool().Draw(t, "success")) },
			"crash":  func(t *rapid.T) { w.end(name.Draw(t, "m"), true) },
			"end":    func(t *rapid.T) { w.end(name.Draw(t, "m"), false) },
			"notStarted": func(t *rapid.T) {
				m := name.Draw(t, "m")
				if w.n.State(m) == Leading {
					delete(w.children, m)
				}
				w.perform(w.n.NotStarted(m))
			},
			"removed": func(t *rapid.T) {
				m, term := name.Draw(t, "m"), uint64(rapid.IntRange(0, int(w.lastTerm)).Draw(t, "term"))
				stored := w.view.Deployments[m].Stored
				effects := w.n.Removed(m, term, stored)
				if _, stopped := effects[0].(Stop); stopped && (stored || term != w.children[m]) {
					t.Fatalf("deleted: %s was stopped by a stale report", m)
				}
				w.perform(effects)
			},
		})
	})
}

func (w *world) change(m string, f func(*Seen)) {
	s := w.view.Deployments[m]
	f(&s)
	if w.view.Deployments[m] = s; s == (Seen{}) {
		delete(w.view.Deployments, m)
	}
}

func (w *world) lease(m, holder string) {
	w.lastTerm++
	w.change(m, func(s *Seen) { s.Leased, s.Lease = true, Lease{holder, w.lastTerm} })
}

func (w *world) sync() {
	for _, m := range []string{"m0", "m1"} {
		switch holder := w.view.Deployments[m].Holder; {
		case holder == "" && w.freeFrom[m].IsZero():
			w.freeFrom[m] = w.now
		case holder != "" && holder != "a":
			delete(w.freeFrom, m)
		}
	}
	w.perform(w.n.Sync(w.view, w.now))
	for m, term := range w.children {
		l := w.view.Deployments[m].Lease
		if (l != Lease{"a", term} || !slices.Contains(w.view.Up, "a")) && w.n.State(m) != Stopping {
			w.t.Fatalf("fenced: the child of %s runs in term %d with lease %v", m, term, l)
		}
	}
	for _, m := range w.n.Names() {
		if _, known := w.view.Deployments[m]; !known && w.n.State(m) == Follower {
			w.t.Fatalf("forgotten: %s is remembered", m)
		}
	}
}

func (w *world) answer(m string, success bool) {
	e := w.attempts[m]
	if e == nil {
		return
	}
	delete(w.attempts, m)
	if _, acquired := e.(Acquire); success {
		if holder := w.view.Deployments[m].Holder; acquired && holder == "" {
			w.lease(m, "a")
		} else if r, ok := e.(Release); ok && w.view.Deployments[m].Lease == (Lease{"a", r.Term}) {
			w.change(m, func(s *Seen) { s.Leased, s.Lease = false, Lease{} })
		}
	}
	w.perform(w.n.Answered(m))
}

// end ends a child: by a crash, or because it was stopped.
func (w *world) end(m string, crash bool) {
	if state := w.n.State(m); state != Stopping && (state != Leading || !crash) {
		return
	}
	if w.n.State(m) == Leading && w.view.Deployments[m].Lease == (Lease{"a", w.children[m]}) {
		w.crashed[m] = w.now
	}
	delete(w.children, m)
	w.perform(w.n.Ended(m, w.view.Deployments[m].Lease, w.now))
}

func (w *world) perform(effects []Effect) {
	up := slices.Contains(w.view.Up, "a")
	for _, e := range effects {
		switch e := e.(type) {
		case Start:
			seen := w.view.Deployments[e.Deployment]
			if _, runs := w.children[e.Deployment]; runs {
				w.t.Fatalf("one child: %v", e)
			}
			if !up {
				w.t.Fatalf("leaving: %v", e)
			}
			if seen.Lease != (Lease{"a", e.Term}) {
				w.t.Fatalf("own term: %v with lease %v", e, seen.Lease)
			}
			w.children[e.Deployment] = e.Term
		case Stop:
			if _, runs := w.children[e.Deployment]; !runs {
				w.t.Fatalf("one child: %v stops none", e)
			}
		case Acquire:
			w.attempt(e.Deployment, e)
			rank, _ := rankOf("a", e.Deployment, w.view.Up)
			from, holder := w.freeFrom[e.Deployment], w.view.Deployments[e.Deployment].Holder
			if w.now.Before(from.Add(time.Duration(rank)*TakeoverDelay)) || holder != "" {
				w.t.Fatalf("rank: %v at rank %d, free since %v", e, rank, w.now.Sub(from))
			}
			if crash, ok := w.crashed[e.Deployment]; ok && w.now.Before(crash.Add(CrashCooldown)) {
				w.t.Fatalf("cooldown: %v", e)
			}
			if !up {
				w.t.Fatalf("leaving: %v", e)
			}
		case Release:
			w.attempt(e.Deployment, e)
			if _, runs := w.children[e.Deployment]; runs {
				w.t.Fatalf("stop first: %v", e)
			}
		}
	}
}

func (w *world) attempt(m string, e Effect) {
	if w.attempts[m] != nil {
		w.t.Fatalf("one attempt: %v while %v is in flight", e, w.attempts[m])
	}
	w.attempts[m] = e
}

// check compares the state of each deployment with the effects so far.
func (w *world) check() {
	for _, m := range []string{"m0", "m1"} {
		state := w.n.State(m)
		_, runs := w.children[m]
		if runs != (state == Leading || state == Stopping) {
			w.t.Fatalf("one child: %s is %v, its child runs: %v", m, state, runs)
		}
		if (w.attempts[m] != nil) != (state == Acquiring || state == Releasing) {
			w.t.Fatalf("one attempt: %s is %v, in flight: %v", m, state, fmt.Sprint(w.attempts[m]))
		}
		if n := w.n.roles[m]; n == nil { // a forgotten deployment starts afresh
			delete(w.crashed, m)
			delete(w.freeFrom, m)
		}
	}
}
