package restore

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/batch"
	"troupe/core/kv"
)

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range 40 { // one Repeat is too short for rare sequences of events
			t.Repeat(map[string]func(*rapid.T){
				"submit":       w.submit,
				"submit again": w.submit,
				"drop":         w.dropAny,
				"looked up":    w.lookedUp,
				"part":         w.part,
				"parts":        func(t *rapid.T) { w.part(t); w.part(t); w.part(t) },
				"copied":       w.copied,
				"step":         w.endStep,
				"steps":        func(t *rapid.T) { w.endStep(t); w.endStep(t) },
				"preempt":      w.preempt,
				"submit many": func(t *rapid.T) {
					for range 8 {
						w.submit(t)
					}
				},
				"part more":    w.part,
				"look up more": func(t *rapid.T) { w.lookedUp(t); w.lookedUp(t) },
				"resume":       w.resumeAny,
				"prefetch":     w.prefetch,
				"crash":        w.crash,
				"measure": func(t *rapid.T) {
					ms := rapid.SampledFrom([]int{1, 1000, 100000}).Draw(t, "ms")
					w.m.Prefilled(10, time.Duration(ms)*time.Millisecond)
				},
				"look up ahead": func(*rapid.T) { w.lookUp() },
				"":              func(*rapid.T) { w.advance() },
			})
		}
		w.drain()
	})
}

var ids = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"}

func (w *world) submit(t *rapid.T) {
	id := rapid.SampledFrom(ids).Draw(t, "id")
	if _, known := w.batch.State(id); known {
		return
	}
	prompt := make([]uint32, rapid.IntRange(3, 30).Draw(t, "tokens"))
	family := rapid.Uint32Range(0, 14).Draw(t, "family")
	for i := range prompt {
		prompt[i] = family
	}
	prompt[len(prompt)-1] += 20 * rapid.Uint32Range(0, 1).Draw(t, "last")
	_, refused := w.batch.Submit(batch.Request{ID: id, Prompt: prompt, Root: kv.Root("m", "", nil), Arrived: w.now,
		MaxOutput: rapid.IntRange(1, 8).Draw(t, "output"), Class: batch.Class(rapid.IntRange(1, 2).Draw(t, "class"))})
	if refused == nil {
		w.do(func() []Effect { return w.m.Queued(id) })
	}
}

func (w *world) drop(id string) {
	w.batch.Drop(id)
	delete(w.undone, id)
	w.do(func() []Effect { return w.m.Dropped(id) })
}

func (w *world) dropAny(t *rapid.T) {
	if id := rapid.SampledFrom(ids).Draw(t, "id"); rapid.IntRange(0, 3).Draw(t, "really") == 0 {
		w.drop(id)
	}
}

// lookedUp ends a lookup.
func (w *world) lookedUp(t *rapid.T) {
	if len(w.lookups) == 0 {
		return
	}
	n := rapid.SampledFrom(slices.Sorted(maps.Keys(w.lookups))).Draw(t, "lookup")
	l := w.lookups[n]
	sources := make([]int, len(l.Hashes))
	if rapid.Bool().Draw(t, "some") {
		sources = sources[:rapid.IntRange(0, len(l.Hashes)).Draw(t, "found")]
	}
	for i := range sources {
		sources[i] = rapid.IntRange(0, len(w.m.cfg.Tiers)).Draw(t, "source")
	}
	delete(w.lookups, n)
	w.locked[n] = true
	w.do(func() []Effect { return w.m.LookedUp(n, sources, []kv.Path{{Name: "b"}}) })
}

// part reports that the next part of copies has arrived.
func (w *world) part(t *rapid.T) {
	c := w.copyInProgress(t)
	if c == nil || !c.Gate || c.arrived == c.Parts {
		return
	}
	c.arrived++
	if c.all = c.arrived == c.Parts; c.all {
		w.fill(c, len(c.Blocks))
	}
	elapsed := time.Duration(c.arrived) * time.Millisecond
	w.do(func() []Effect { return w.m.Arrived(c.Number, c.arrived, c.Parts, elapsed) })
}

func (w *world) copyInProgress(t *rapid.T) *copies {
	var all []uint64
	for _, n := range slices.Sorted(maps.Keys(w.copies)) {
		if !w.copies[n].ended {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return w.copies[rapid.SampledFrom(all).Draw(t, "copy")]
}

// copied ends copies, of which some blocks have arrived.
func (w *world) copied(t *rapid.T) {
	c := w.copyInProgress(t)
	if c == nil {
		return
	}
	r := Result{Blocks: len(c.Blocks), Reads: []Read{{100, time.Millisecond}, {100, time.Second}}[:len(w.m.cfg.Tiers)]}
	if !c.all && len(c.Blocks) > 0 {
		r.Blocks = rapid.IntRange(0, len(c.Blocks)).Draw(t, "blocks")
		if c.all = r.Blocks == len(c.Blocks); c.Gate && c.all {
			r.Blocks--
			c.all = false
		}
		w.fill(c, r.Blocks)
	}
	if r.Blocks < len(c.Blocks) {
		r.Why = "damaged"
	}
	c.ended = true
	w.do(func() []Effect { return w.m.Copied(c.Number, r) })
}

// endStep ends the step in flight: either a gate fails, or all sequences compute their tokens.
func (w *world) endStep(t *rapid.T) {
	entries := w.step
	if entries == nil {
		return
	}
	for _, e := range entries {
		if c := w.copies[w.m.Gate(e.ID)]; e.Restoring && c != nil && !c.all {
			w.step = nil
			w.undone[e.ID] = c.Number
			w.do(func() []Effect { return w.m.StepAborted(e.ID) })
			return
		}
	}
	var sampled []uint32
	for _, e := range entries {
		p, _ := w.batch.Progress(e.ID)
		if e.Restoring && p.Restoring {
			w.checkContent(e)
			w.do(func() []Effect { return w.m.StepDone(e.ID) })
		}
		for i := range e.Tokens {
			at := e.Position + i
			w.slots[int(e.Blocks[at/blockTokens])*blockTokens+at%blockTokens] = digest(w.planned[e.ID][:at+1])
		}
		if e.Sample {
			sampled = append(sampled, 7)
		}
	}
	w.step = nil
	for _, e := range w.batch.Done(entries, sampled) {
		if e.Finish != batch.None {
			w.drop(e.ID)
		}
	}
}

// preempt preempts the sequences with blocks at the end of the pool.
func (w *world) preempt(t *rapid.T) {
	if end := rapid.IntRange(poolBlocks/2, poolBlocks).Draw(t, "end"); w.step == nil {
		w.requeue(w.batch.PreemptBeyond(end))
	}
}

// resumeAny resumes a sequence, as the end of its migration does.
func (w *world) resumeAny(t *rapid.T) {
	id := rapid.SampledFrom(ids).Draw(t, "id")
	if rapid.IntRange(0, 4).Draw(t, "really") == 0 && w.m.State(id) != Preempted && w.m.State(id) != Failed {
		w.batch.Resume(id)
	}
}

func (w *world) prefetch(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		return
	}
	tokens := make([]uint32, 12)
	hashes := kv.Hashes(kv.Root("m", "", nil), tokens, blockTokens)
	w.learn(tokens, hashes)
	if have := w.pool.Match(hashes); have < len(hashes) {
		w.commands++
		w.do(func() []Effect { return w.m.Prefetch(w.commands, Candidate{Hashes: hashes, Have: have}) })
	}
}

// crash restarts the copier.
func (w *world) crash(t *rapid.T) {
	if rapid.IntRange(0, 29).Draw(t, "really") > 0 {
		return
	}
	for n := range w.lookups {
		if w.lost[n] = true; w.m.entries[n].state == Orphaned {
			w.endSearch(n)
		}
	}
	for n := range w.locked {
		w.lost[n] = true
	}
	clear(w.lookups)
	clear(w.locked)
	for _, c := range w.copies {
		c.ended = true
	}
	w.do(w.m.CopierLost)
}

// drain lets everything end and checks that nothing is left.
func (w *world) drain() {
	for range 2000 {
		w.lookedUp(w.T)
		w.part(w.T)
		w.copied(w.T)
		w.endStep(w.T)
		w.advance()
		if w.batch.Running() == 0 && w.batch.Waiting() == 0 && len(w.lookups)+len(w.copies) == 0 && w.step == nil {
			break
		}
	}
	for _, id := range ids {
		if state, known := w.batch.State(id); known {
			w.Fatalf("released: %s is still %s and %s", id, state, w.m.State(id))
		}
	}
	if len(w.m.entries)+len(w.m.byID)+len(w.m.byBlock)+w.m.active > 0 {
		w.Fatalf("empty: %+v", w.dump())
	}
	if len(w.locked) > 0 {
		w.Fatalf("locks: %v are left", w.locked)
	}
	if len(w.gates) > 0 {
		w.Fatalf("gate: %v are left", w.gates)
	}
	if len(w.refs) > 0 || w.pool.Free() != poolBlocks {
		w.Fatalf("references: %v are left, and %d blocks are free", w.refs, w.pool.Free())
	}
	for n := range w.commands {
		if w.answered[n+1] != 1 {
			w.Fatalf("answered: command %d is not", n+1)
		}
	}
}
