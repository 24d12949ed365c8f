package device

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
	"troupe/core/quarantine"
	"troupe/core/residency"
)

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		actions := map[string]func(*rapid.T){
			"load": func(*rapid.T) { w.load() }, "load more": func(*rapid.T) { w.load() },
			"unload":   func(*rapid.T) { w.unload() },
			"adapters": func(*rapid.T) { w.adapters() },
			"report":   func(*rapid.T) { w.report() }, "report again": func(*rapid.T) { w.report() },
			"pool reports":       func(*rapid.T) { w.poolReports() },
			"pool reports again": func(*rapid.T) { w.poolReports() },
			"pool shrinks":       func(*rapid.T) { w.poolShrinks() }, "rest": func(*rapid.T) { w.rest() },
			"evict": func(*rapid.T) { w.evict() },
			"read":  func(*rapid.T) { w.read() }, "read ended": func(*rapid.T) { w.endRead() },
			"shrunk": func(*rapid.T) { w.shrunk() }, "shrunk again": func(*rapid.T) { w.shrunk() },
			"job": func(*rapid.T) { w.runJob() }, "another job": func(*rapid.T) { w.runJob() },
			"deliver": func(*rapid.T) { w.deliver() }, "deliver more": func(*rapid.T) { w.deliver() },
			"job with result": func(*rapid.T) {
				w.runJob()
				w.deliver()
			},
			"wait": func(t *rapid.T) {
				w.advance(time.Duration(rapid.SampledFrom([]int{0, 100, 600, 2000}).Draw(t, "ms")) * time.Millisecond)
			},
			"health": func(t *rapid.T) {
				w.health = quarantine.State(max(0, rapid.IntRange(-5, 2).Draw(t, "health")))
				if w.health == quarantine.Lost {
					w.do(func() []Effect { return w.m.UnloadAll(w.now) })
				}
			},
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
					w.restart()
				}
			},
			"": func(*rapid.T) {},
		}
		for range 5 { // one Repeat is too short for rare sequences of events
			t.Repeat(actions)
		}
		w.settle()
	})
}

// settle lets all jobs end while the replicas are silent, and readers that are not revoked go on.
// Afterwards no request may wait.
func (w *world) settle() {
	for range 40 {
		for len(w.jobs) > 0 {
			w.work(0, false)
		}
		for len(w.notes) > 0 {
			n := w.notes[0]
			w.notes = w.notes[1:]
			w.do(n.report)
		}
		for _, r := range slices.Sorted(maps.Keys(w.readers)) {
			if w.revoked[r] {
				w.readEnded(r)
			}
		}
		w.advance(time.Second)
	}
	if len(w.wait) > 0 {
		w.Fatalf("ends: requests %v still wait", w.wait)
	}
	for _, c := range w.m.weights.Copies() {
		if c.State != residency.Resident {
			w.Fatalf("ends: weights %d stay %s", c.Number, c.State)
		}
	}
	for _, h := range w.m.sorted() {
		if h.phase != Resident || h.kv.state != Steady || h.adapters.state == Queued ||
			h.adapters.state == Allocating || h.adapters.state > Leased {
			w.Fatalf("ends: %s stays %s, %s, %s", h.lease, h.phase, h.kv.state, h.adapters.state)
		}
	}
}

// check checks the invariants that hold between events.
func (w *world) check() {
	leased := make(map[string]map[string]int) // by lease and kind
	for _, l := range w.m.ledger.Leases() {
		if leased[l.Owner] == nil {
			leased[l.Owner] = make(map[string]int)
		}
		leased[l.Owner][l.Kind] += len(l.Pages)
	}
	for _, lease := range []string{"a", "b", "c"} {
		w.checkPages(lease, leased[lease])
		w.checkWaits(lease)
	}
	w.checkWeights(leased)
	var sum int
	for _, l := range w.m.ledger.Leases() {
		sum += len(l.Pages)
	}
	if sum+w.m.freePages() != int(worldConfig.Total/hbm.PageBytes) {
		w.Fatalf("no leak: %d pages are leased and %d free", sum, w.m.freePages())
	}
}

// checkPages compares the pages that a lease has in the ledger with the pages in use.
func (w *world) checkPages(lease string, got map[string]int) {
	want := make(map[string]int)
	if model, ok := w.models[lease]; ok {
		want = map[string]int{"kv": model.Blocks, "adapters": model.AdapterPages}
		addFixed(want, model.Size)
	}
	for _, job := range w.jobs {
		if l, _ := leaseOf(job); l != lease {
			continue
		}
		switch j := job.(type) {
		case Open:
			want["kv"], want["adapters"] = j.Blocks, j.Spec.AdapterPages
			addFixed(want, w.sizes[lease])
		case Resize:
			want["kv"] = max(want["kv"], j.Blocks)
		case Allocate:
			want["adapters"] = max(want["adapters"], j.Pages)
		case ChangePages:
			want["adapters"] = max(want["adapters"], j.Pages)
		}
	}
	if h := w.m.holders[lease]; h != nil && h.phase == Loading {
		want["kv"], want["adapters"] = h.blocks, h.spec.AdapterPages
		addFixed(want, w.sizes[lease])
	}
	late := false
	for _, n := range w.notes {
		l, _ := leaseOf(n.job)
		late = late || l == lease
	}
	for _, kind := range []string{"workspace", "graphs", "kv", "adapters"} {
		switch {
		case got[kind] < want[kind]:
			w.Fatalf("covered: %s uses %d pages for %s, of which %d are leased", lease, want[kind], kind, got[kind])
		case got[kind] > want[kind] && !late:
			w.Fatalf("no leak: %s uses %d pages for %s, and %d are leased", lease, want[kind], kind, got[kind])
		}
	}
}

func addFixed(pages map[string]int, s Size) {
	pages["workspace"], pages["graphs"] = hbm.PagesOf(s.Workspace), hbm.PagesOf(s.Graphs)
}

// checkWeights compares the pages that are leased for weights with the copies.
func (w *world) checkWeights(leased map[string]map[string]int) {
	known := make(map[string]bool)
	for _, c := range w.m.weights.Copies() {
		known[c.Owner()] = true
		want := c.Pages()
		if c.State == residency.Wanted {
			want = 0
		}
		if got := leased[c.Owner()]["weights"]; got != want {
			w.Fatalf("no leak: weights %d are %s with %d pages, not %d", c.Number, c.State, got, want)
		}
		for _, u := range c.Users {
			if h := w.m.holders[u.Lease]; h == nil || h.copy != c.Number {
				w.Fatalf("in use: weights %d count %s as a user", c.Number, u.Lease)
			}
		}
	}
	for n, c := range w.copies {
		if !known[c.Owner()] {
			w.Fatalf("covered: weights %d are in memory and unknown", n)
		}
	}
	for _, model := range w.models {
		if _, there := w.copies[model.Copy]; !there {
			w.Fatalf("in use: %s has no weights", model.Lease)
		}
	}
}

// checkWaits checks that a wait is within its bounds, and that a request or a timer will end it.
func (w *world) checkWaits(lease string) {
	h := w.m.holders[lease]
	if h == nil || h.phase != Waiting || w.m.Has(Loading, Opening) {
		delete(w.waiting, lease)
	} else if _, ok := w.waiting[lease]; !ok {
		w.waiting[lease] = w.now
	}
	if since, ok := w.waiting[lease]; ok && w.now.Sub(since) > yieldTimeout+time.Second {
		w.Fatalf("bounded: the load of %s waits for memory since %v", lease, w.now.Sub(since))
	}
	if h == nil {
		return
	}
	if h.kv.state == Yielding {
		armed := false
		for _, t := range w.timers {
			armed = armed || t.lease == lease && t.attempt == h.kv.attempt
		}
		if since := w.askedAt[h.kv.attempt]; !armed || w.now.Sub(since) > yieldTimeout+shrinkTimeout {
			w.Fatalf("bounded: %s yields since %v, timer set: %v", lease, w.now.Sub(since), armed)
		}
	}
	if h.adapters.state == Recalled {
		armed := false
		for _, t := range w.timers {
			armed = armed || t.lease == lease && t.attempt == h.adapters.attempt
		}
		if since := w.askedAt[h.adapters.attempt]; !armed || w.now.Sub(since) > yieldTimeout+shrinkTimeout {
			w.Fatalf("bounded: the pages of %s are recalled since %v, timer set: %v", lease, w.now.Sub(since), armed)
		}
	}
	if h.phase >= Inspecting && h.phase <= Opening && len(h.requests) == 0 {
		w.Fatalf("answered: %s is loaded for no request", lease)
	}
	if (h.phase < Resident) != (h.kv.state == Unused) {
		w.Fatalf("in step: %s is %s with KV memory %s", lease, h.phase, h.kv.state)
	}
}
