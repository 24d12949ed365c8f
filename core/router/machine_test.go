package router

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, now: time.Unix(1e9, 0), nodes: map[string]*node{}, terms: map[string]uint64{}}
		for _, name := range names {
			w.start(name, nil)
		}
		w.see()
		actions := map[string]func(*rapid.T){
			"tick":     func(*rapid.T) { w.tick(w.any(), w.late()) },
			"pass":     func(*rapid.T) { w.pass(rapid.IntRange(1, 12).Draw(t, "ticks")) },
			"deliver":  func(*rapid.T) { w.deliverSome(true) },
			"repeat":   func(*rapid.T) { w.deliverSome(false) },
			"all":      func(*rapid.T) { w.deliverAll() },
			"lose":     func(*rapid.T) { w.lose() },
			"replica":  func(*rapid.T) { w.any().changeReplica() },
			"replicas": func(*rapid.T) { w.any().changeReplica() },
			"tier":     func(*rapid.T) { w.any().changeTier() },
			"status":   func(*rapid.T) { w.any().changeStatus() },
			"end":      func(*rapid.T) { w.any().endReplica() },
			"break":    func(*rapid.T) { w.any().disconnect() },
			"store":    func(*rapid.T) { w.any().changeStore() },
			"members":  func(*rapid.T) { w.any().see() },
			"route":    func(*rapid.T) { w.any().route() },
			"again":    func(*rapid.T) { w.any().route() },
			"cancel":   func(*rapid.T) { w.any().cancel() },
			"find":     func(*rapid.T) { w.any().find() },
			"node":     func(*rapid.T) { w.changeNode() },
		}
		for range 3 { // one Repeat is too short for rare sequences of events
			t.Repeat(actions)
		}
		w.converge()
	})
}

var names = []string{"a", "b", "c"}

func (w *world) any() *node {
	return w.nodes[rapid.SampledFrom(sorted(w.nodes)).Draw(w.T, "node")]
}

func (w *world) late() time.Duration {
	return time.Duration(rapid.SampledFrom([]int{0, 0, 20, 700, 3000}).Draw(w.T, "late")) * time.Millisecond
}

// tick fires a node's timer, possibly late, because the router stalled.
func (w *world) tick(n *node, late time.Duration) {
	if n.due.After(w.now) {
		w.now = n.due
	}
	w.now = w.now.Add(late)
	for _, c := range n.contacts {
		c.heardAt = c.heardAt.Add(w.now.Sub(n.due))
	}
	n.ticks++
	n.do(nil, func() []Effect { return n.m.Tick(w.now) })
	n.due = w.now.Add(FlushInterval)
	if n.changes > 0 {
		w.Fatalf("shared: %s did not announce %d changes", n.name, n.changes)
	}
	n.checkSilence()
}

// pass lets the timers of all nodes fire.
func (w *world) pass(ticks int) {
	for range ticks {
		for _, name := range sorted(w.nodes) {
			w.tick(w.nodes[name], 0)
		}
	}
}

func (w *world) take(i int) packet {
	p := w.network[i]
	w.network = slices.Delete(w.network, i, i+1)
	return p
}

func (w *world) lose() {
	if n := len(w.network); n > 0 {
		w.take(rapid.IntRange(0, n-1).Draw(w.T, "lost"))
	}
}

// deliverSome delivers a message, which may remain in the network and arrive again.
func (w *world) deliverSome(take bool) {
	n := len(w.network)
	if n == 0 {
		return
	}
	i := rapid.IntRange(0, n-1).Draw(w.T, "delivered")
	p := w.network[i]
	if take {
		w.take(i)
	}
	w.deliver(p)
}

func (w *world) deliverAll() {
	for len(w.network) > 0 {
		w.deliver(w.take(0))
	}
}

func (w *world) deliver(p packet) {
	n := w.nodes[p.to]
	switch {
	case n == nil:
	case p.ask:
		n.sendSnapshot(p.from)
	default:
		n.hear(p)
	}
}

// hear delivers an announcement.
func (n *node) hear(p packet) {
	w, a, c := n.w, p.news, n.contacts[p.from]
	before := n.m.statuses[contested]
	first := c != nil && !c.heard
	if c != nil {
		c.heard, c.heardAt = true, w.now
		if a.Incarnation > c.newest {
			c.newest, c.adopted = a.Incarnation, false
		}
		c.adopted = c.adopted || a.Incarnation == c.newest && a.Snapshot
	}
	effects := n.do(&a, func() []Effect { return n.m.Announced(a, w.now) })
	if s, ok := n.m.statuses[contested]; ok && s.Term < before.Term && before.Node != p.from {
		w.Fatalf("terms: %v replaced %v", s, before)
	}
	if slices.Contains(effects, Effect(Watch{routerOf(p.from)})) != first {
		w.Fatalf("watched: first heard on the connection: %v; effects %v", first, effects)
	}
	if slices.ContainsFunc(effects, func(e Effect) bool { _, ok := e.(Ignored); return ok }) {
		return
	}
	switch n.m.peers[p.from].sync {
	case Synced:
		next := [2]uint64{a.Incarnation, a.Sequence}
		if slices.Compare(next[:], c.applied[:]) <= 0 && c.applied != [2]uint64{} {
			w.Fatalf("forward: %s went from %v to %v", n.name, c.applied, next)
		}
		if got := view(n.m, p.from); got != p.view {
			w.Fatalf("applied: %s knows of %s\n%s, want\n%s", n.name, p.from, got, p.view)
		}
		c.applied = next
	default:
		if w.now.Sub(c.asked) >= 500*time.Millisecond {
			w.Fatalf("retry: %s did not ask %s", n.name, p.from)
		}
	}
}

// see reports the current members to all nodes.
func (w *world) see() {
	for _, name := range sorted(w.nodes) {
		w.nodes[name].see()
	}
}

// changeNode makes a node leave or join, or crashes its router.
func (w *world) changeNode() {
	name := rapid.SampledFrom(names).Draw(w.T, "node")
	n := w.nodes[name]
	switch what := rapid.IntRange(0, 3).Draw(w.T, "what"); {
	case n == nil:
		w.start(name, nil)
	case what == 0 && len(w.nodes) > 1:
		delete(w.nodes, name)
	case what == 1:
		w.start(name, n)
	default:
		n.leaving = !n.leaving
	}
}

// converge checks that all routers have the same view after some time without faults.
func (w *world) converge() {
	w.see()
	for range 15 {
		w.pass(1)
		w.deliverAll()
	}
	for _, name := range sorted(w.nodes) {
		n := w.nodes[name]
		if n.readStore([]string{"m", "n"}); n.synced != 1 {
			w.Fatalf("converges: %s is %s", name, n.m.phase)
		}
		n.route()
		for _, peer := range n.members {
			if got, want := view(n.m, peer), w.nodes[peer].truth.String(); got != want || n.silent(peer) {
				w.Fatalf("converges: %s knows of %s\n%s, want\n%s; silent: %v", name, peer, got, want, n.silent(peer))
			}
		}
	}
}
