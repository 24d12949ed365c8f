package tier

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/export"
	"troupe/core/kv"
)

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		actions := map[string]func(*rapid.T){
			"reserve":       func(*rapid.T) { w.reserve() },
			"reserve again": func(*rapid.T) { w.reserve() },
			"commit":        func(*rapid.T) { w.commit(w.request("r"), rapid.Bool().Draw(w.T, "all")) },
			"commit again":  func(*rapid.T) { w.commit(w.request("r"), true) },
			"timeout": func(*rapid.T) {
				id := w.request("r")
				w.do(id, func() []Effect { return w.m.ReservationTimeout(id) })
			},
			"lock": func(*rapid.T) {
				id, hashes := w.request("l"), w.blocks()
				w.from = w.sender()
				w.do(id, func() []Effect { return w.m.Lock(id, w.from, hashes) })
			},
			"unlock": func(*rapid.T) { w.unlock(w.request("l")) },
			"steps": func(*rapid.T) {
				n := rapid.IntRange(0, 5).Draw(w.T, "steps")
				w.do("", func() []Effect { return w.m.StepsDone(n) })
			},
			"copy ended":   func(*rapid.T) { w.copyEnded(rapid.IntRange(0, 3).Draw(w.T, "fails") == 0) },
			"retry":        func(*rapid.T) { w.do("", w.m.Retry) },
			"pin":          func(*rapid.T) { w.pin() },
			"pins timeout": func(*rapid.T) { w.pinsTimeout() },
			"flush": func(*rapid.T) {
				id := w.request("f")
				w.from = w.sender()
				if _, again := w.asker[id]; again {
					w.asker[id] = w.from
				}
				w.do(id, func() []Effect { return w.m.Flush(id, w.from) })
			},
			"erased":   func(*rapid.T) { w.erased(w.request("f")) },
			"lease":    func(*rapid.T) { w.lease() },
			"exported": func(*rapid.T) { w.exported(w.request("x")) },
			"announce": func(*rapid.T) { w.do("", func() []Effect { return w.m.Announce(false) }) },
		}
		for range 3 { // one Repeat is too short for rare sequences of events
			t.Repeat(actions)
		}
		w.endAll()
	})
}

func (w *world) reserve() {
	id, bytes := w.request("r"), smallBytes
	large := rapid.IntRange(0, 2).Draw(w.T, "large") == 0
	if large {
		bytes = largeBytes
	}
	var hashes []kv.Hash
	for _, n := range w.numbers(1) {
		if h := w.block(n); w.sizes[h] == bytes {
			hashes = append(hashes, h)
		}
	}
	if w.from = w.sender(); w.asker[id] != (Actor{}) {
		w.asker[id] = w.from
		if effects := w.do(id, func() []Effect { return w.m.Reserve(id, w.from, hashes, bytes) }); len(effects) > 0 {
			w.Fatalf("answered: a repeated reservation that waits had effects %v", effects)
		}
		return
	}
	w.do(id, func() []Effect { return w.m.Reserve(id, w.from, hashes, bytes) })
}

func (w *world) commit(id string, all bool) {
	w.written = nil
	for _, u := range w.writers[id] {
		if all || rapid.Bool().Draw(w.T, "written") {
			w.written = append(w.written, u.hash)
			w.content[u.slot] = u
		}
	}
	delete(w.writers, id)
	delete(w.asker, id)
	w.do(id, func() []Effect { return w.m.Commit(id, w.written) })
}

func (w *world) unlock(id string) {
	var damaged []kv.Hash
	if uses := w.readers[id]; len(uses) > 0 && rapid.IntRange(0, 4).Draw(w.T, "damaged") == 0 {
		damaged = []kv.Hash{uses[0].hash}
	}
	delete(w.readers, id)
	w.do(id, func() []Effect { return w.m.Unlock(id, damaged) })
}

func (w *world) copyEnded(fault bool) {
	var outcomes []Outcome
	for range w.copying {
		how := rapid.SampledFrom([]Outcome{NotCopied, Stored, Stored, DamagedSource}).Draw(w.T, "how")
		outcomes = append(outcomes, how)
	}
	w.copying = nil
	delete(w.readers, "copy")
	w.do("", func() []Effect { return w.m.CopyEnded(outcomes, fault) })
}

func (w *world) pin() {
	replica, hashes := w.request("a"), w.blocks()
	w.pins[replica] = hashes
	w.do(replica, func() []Effect { return w.m.Pin(replica, hashes) })
}

func (w *world) pinsTimeout() {
	replica := w.request("a")
	version := w.versions[replica] - uint64(rapid.IntRange(0, 1).Draw(w.T, "late"))
	if version == w.versions[replica] {
		delete(w.pins, replica)
	}
	w.do(replica, func() []Effect { return w.m.PinsTimeout(replica, version) })
}

func (w *world) erased(id string) {
	fault := rapid.SampledFrom([]string{"", "disk"}).Draw(w.T, "fault")
	w.do(id, func() []Effect { return w.m.Erased(id, fault) })
}

func (w *world) lease() {
	r := export.Request{ID: w.request("x"), Space: space, BlockBytes: smallBytes, Within: time.Second}
	for _, n := range w.numbers(1) {
		w.block(n)
		r.Hashes = append(r.Hashes, kv.Root("block", fmt.Sprint(n), nil))
	}
	w.do(r.ID, func() []Effect { return w.m.Lease(r) })
}

func (w *world) exported(id string) {
	var damaged []kv.Hash
	if uses := w.readers[id]; len(uses) > 0 && rapid.IntRange(0, 4).Draw(w.T, "damaged") == 0 {
		damaged = []kv.Hash{uses[0].hash}
	}
	delete(w.readers, id)
	w.do(id, func() []Effect { return w.m.ExportEnded(id, damaged, "") })
}

// endAll ends all requests.
func (w *world) endAll() {
	for range 20 {
		w.copyEnded(false)
		w.do("", w.m.Retry)
		for _, id := range slices.Sorted(maps.Keys(w.m.reservations)) {
			w.commit(id, true)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.readers)) {
		if id[0] == 'x' {
			w.exported(id)
		} else if id[0] == 'l' {
			w.unlock(id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.m.flushes)) {
		w.erased(id)
	}
	for w.copying != nil {
		w.copyEnded(false)
	}
	if s := w.m.Stats(); s.Arriving+s.Leaving != 0 || s.Free+s.Resident != s.Slots {
		w.Fatalf("released: %+v", s)
	}
	for id := range w.asker {
		if id[0] != 'x' {
			w.Fatalf("answered: %s was not", id)
		}
	}
}

// TestWaitingIsBounded checks that a reservation is answered without slots if 64 others wait.
func TestWaitingIsBounded(t *testing.T) {
	m := New(Config{Name: "dram", Policy: "lru", Lower: true, Limits: kv.TierLimits{
		Slabs: kv.Slabs{Count: 1, Bytes: 4 * kv.SlotUnit}, Watermark: 1,
	}})
	small := kv.Root("small", "", nil)
	m.Reserve("small", Actor{}, []kv.Hash{small}, smallBytes)
	m.Commit("small", []kv.Hash{small})
	for i := range 65 {
		effects := m.Reserve(fmt.Sprint(i), Actor{ID: "r"}, []kv.Hash{kv.Root("large", fmt.Sprint(i), nil)}, largeBytes)
		if _, waits := effects[0].(ExpireReservation); waits != (i < 64) {
			t.Fatalf("reservation %d: %v", i, effects)
		}
	}
	if effects := m.CopyEnded([]Outcome{Stored}, false); len(effects) != 64 {
		t.Errorf("%d answers, want 64", len(effects))
	} else if a := effects[0].(AnswerReserve); a.ID != "0" || len(a.Slots) != 1 {
		t.Errorf("the first one waited longest: %+v", a)
	}
}

// TestCopyIsBounded checks that at most 128 blocks are copied at once, of one size, the small ones
// first.
func TestCopyIsBounded(t *testing.T) {
	m := New(Config{Name: "dram", Policy: "lru", Lower: true, Limits: kv.TierLimits{
		Slabs: kv.Slabs{Count: 2, Bytes: 200 * kv.SlotUnit}, Watermark: 1, IdleSteps: 1, Burst: 400,
	}})
	put := func(id string, n, bytes int) {
		var hashes []kv.Hash
		for i := range n {
			hashes = append(hashes, kv.Root(id, fmt.Sprint(i), nil))
		}
		m.Reserve(id, Actor{}, hashes, bytes)
		m.Commit(id, hashes)
	}
	put("large", 3, largeBytes)
	put("small", 130, smallBytes)
	sizes := func(effects []Effect) (all []int) {
		for _, e := range effects {
			if c, ok := e.(Copy); ok {
				all = append(all, len(c.Blocks), c.Blocks[0].Size)
			}
		}
		return all
	}
	stored := slices.Repeat([]Outcome{Stored}, 128)
	for _, want := range [][]int{{128, smallBytes}, {2, smallBytes}, {3, largeBytes}, nil} {
		effects := m.StepsDone(1)
		if want == nil || want[0] != 128 {
			effects = m.CopyEnded(stored, false)
		}
		if got := sizes(effects); !slices.Equal(got, want) {
			t.Fatalf("copied %v, want %v", got, want)
		}
	}
}

// TestStepsAreBounded checks that one message does not cost more than a limited number of steps.
func TestStepsAreBounded(t *testing.T) {
	m := New(Config{Name: "dram", Policy: "lru", Lower: true, Limits: kv.TierLimits{
		Slabs: kv.Slabs{Count: 1, Bytes: kv.SlotUnit}, Watermark: 1, IdleSteps: maxSteps + 1,
	}})
	h := kv.Root("block", "", nil)
	m.Reserve("a", Actor{}, []kv.Hash{h}, smallBytes)
	m.Commit("a", []kv.Hash{h})
	if effects := m.StepsDone(1 << 30); len(effects) > 0 {
		t.Errorf("one message counted as more than %d steps: %v", maxSteps, effects)
	}
	if effects := m.StepsDone(1); len(effects) != 1 {
		t.Errorf("the block is not demoted: %v", effects)
	}
}
