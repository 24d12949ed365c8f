package lora

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestInvariants checks the invariants of doc.go under random faults, and that no page or reference
// leaks.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			w := newWorld(t)
			for range 25 {
				w.step()
				w.carryOut()
				w.check()
				w.fault()
				w.carryOut()
				w.check()
			}
			w.finish()
		}
	})
}

// check verifies the invariants listed in doc.go.
func (w *faultWorld) check() {
	owner := map[uint32]string{}
	held, owed := 0, 0
	for id, a := range w.pool.adapters {
		for _, page := range a.pages {
			if other, twice := owner[page]; twice {
				w.t.Fatalf("exclusive: page %d belongs to %s and %s", page, id, other)
			}
			owner[page] = id
		}
		held += len(a.pages)
		if a.state == Pending {
			owed += a.layout.Pages()
		}
		if (a.state == Active) != (a.resident() && len(a.users) > 0) || a.state == Absent && len(a.users) > 0 ||
			a.state == Evicting && len(a.users) > 0 {
			w.t.Fatalf("kept: %s is %s with %d requests", id, a.state, len(a.users))
		}
	}
	if held+w.pool.pages.Available() != len(w.pages) || owed != w.pool.pendingPages ||
		owed > 0 && w.pool.shortage() > 0 {
		w.t.Fatalf("conservation: %d pages held, %d free, %d being evicted, %d pending (%d)",
			held, w.pool.pages.Available(), w.pool.evictingPages, owed, w.pool.pendingPages)
	}
	if len(w.pool.requests) != len(w.requests) {
		w.t.Fatalf("refused: %d requests hold adapters, want %d", len(w.pool.requests), len(w.requests))
	}
	if line := w.pool.pending; len(line) > 0 && line[0].layout.Pages() <= w.pool.pages.Available() {
		w.t.Fatalf("in line: %s waits, and %d pages are free", line[0].id, w.pool.pages.Available())
	}
	for request, state := range w.requests {
		if state != Active {
			continue
		}
		table, ok := w.pool.Table(w.adapter[request])
		if !ok {
			w.t.Fatalf("in place: %s has no %s", request, w.adapter[request])
		}
		for _, page := range table.Pages {
			if w.content[page] != w.adapter[request] {
				w.t.Fatalf("in place: %s needs %s, and page %d has %q", request, w.adapter[request], page,
					w.content[page])
			}
		}
	}
}

// finish completes all actions in flight and ends all requests.
func (w *faultWorld) finish() {
	w.wanted = 0
	w.endShrink(0)
	w.carryOut()
	w.check()
	for len(w.loads)+len(w.evicts)+len(w.inspects)+w.wanted > 0 {
		if w.wanted > 0 {
			w.grow(0)
		} else if id, ok := pick(w.r, &w.evicts); ok {
			w.evicted(id)
		} else if l, ok := pick(w.r, &w.loads); ok {
			w.loaded(l, nil)
		} else if id, ok := pick(w.r, &w.inspects); ok {
			w.inspected(id)
		}
		w.carryOut()
		w.check()
	}
	for _, request := range slices.Sorted(maps.Keys(w.requests)) {
		if w.requests[request] != Active {
			w.t.Fatalf("answered: %s waits, but nothing is in flight", request)
		}
		w.unpin(request)
	}
	for i := range worldAdapters {
		w.pool.Delete(fmt.Sprint("a", i))
	}
	w.carryOut()
	for len(w.evicts) > 0 {
		id, _ := pick(w.r, &w.evicts)
		w.evicted(id)
	}
	if p := w.pool; p.pages.Available() != len(w.pages) || len(p.adapters)+len(p.requests)+len(p.pending) != 0 {
		w.t.Fatalf("nothing left: %d of %d pages, %d adapters, %d requests", p.pages.Available(),
			len(w.pages), len(p.adapters), len(p.requests))
	}
}
