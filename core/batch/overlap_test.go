package batch

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

// restoring is a harness that restores the blocks of waiting sequences, as a replica does, from a
// tier that has every block.
type restoring struct {
	*harness
	t        fataler
	restores map[string]*restore // by request
	fails    func() bool         // reports whether a gate fails
	started  int
	aborted  int
	restored int
	partial  int // restores that ended in a partial block
}

// restore fills blocks after the resident ones.
type restore struct {
	hashes        []kv.Hash
	begin, blocks []int32
	tokens        int // in the blocks
	restored      bool
}

func newRestoring(t fataler, limits Limits, blocks int, fails func() bool) *restoring {
	r := &restoring{harness: newHarness(limits, blocks), t: t, restores: map[string]*restore{}, fails: fails}
	r.abort = r.runGates
	r.planned = func(plan Step) {
		for _, p := range plan.Preempted {
			to := r.restores[p.ID]
			if seq := r.byID[p.ID]; seq != nil && seq.held != (to != nil && !to.restored) {
				t.Fatalf("%s was preempted, and held is %v", p.ID, seq.held)
			}
		}
	}
	return r
}

// startRestore starts a restore for the sequence that is next.
func (r *restoring) startRestore() *restore {
	id, hashes, ok := r.PeekWaiting()
	have := r.pool.Match(hashes)
	if !ok || have == len(hashes) || r.restores[id] != nil {
		return nil
	}
	r.Hold(id)
	to := &restore{hashes: hashes, begin: r.pool.Acquire(hashes[:have]), tokens: len(hashes) * blockTokens}
	if seq := r.byID[id]; len(hashes) > len(seq.reusable(blockTokens)) {
		to.tokens = seq.savedTokens
		r.partial++
	}
	for len(to.begin)+len(to.blocks) < len(hashes) {
		b, ok := r.pool.Allocate()
		if !ok {
			break
		}
		r.written[b] = nil
		to.blocks = append(to.blocks, b)
	}
	r.restores[id] = to
	return to
}

// startOverlap starts a sequence whose restore has not ended.
func (r *restoring) startOverlap(id string) bool {
	to := r.restores[id]
	ok := r.StartRestoring(id, slices.Concat(to.begin, to.blocks), len(to.begin))
	if ok {
		r.started++
	}
	return ok
}

// fillBlocks simulates the copies of the leading blocks.
func (r *restoring) fillBlocks(id string, many int) {
	to, q := r.restores[id], r.requests[id]
	all := slices.Concat(q.Prompt, r.outputs[id])
	for i, b := range to.blocks[:many] {
		from := (len(to.begin) + i) * blockTokens
		r.written[b] = nil
		for p := from; p < min(from+blockTokens, to.tokens); p++ {
			r.written[b] = append(r.written[b], q.oracle(all[:p+1]))
		}
	}
}

// runGates fills the blocks that a step reads while it runs, or aborts the step. The slots that an
// aborted step was to write hold garbage.
func (r *restoring) runGates(plan Step) bool {
	for _, e := range plan.Entries {
		to := r.restores[e.ID]
		if !e.Restoring {
			continue
		}
		for i, b := range to.blocks {
			found := r.pool.Acquire(to.hashes[len(to.begin)+i : len(to.begin)+i+1])
			if len(found) > 0 && found[0] == b {
				r.t.Fatalf("arrived: %s: block %d is offered for sharing before it is filled", e.ID, b)
			}
			r.pool.Release(found)
		}
		if r.fails() {
			for _, other := range plan.Entries {
				for p := other.Position; p < other.Position+len(other.Tokens); p++ {
					b := other.Blocks[p/blockTokens]
					r.written[b] = r.written[b][:min(len(r.written[b]), p%blockTokens)]
				}
			}
			r.RestoreFailed(e.ID)
			r.aborted++
			return true
		}
		r.fillBlocks(e.ID, len(to.blocks))
	}
	for _, e := range plan.Entries {
		if e.Restoring {
			r.restores[e.ID].restored = true
			r.restored++
		}
	}
	return false
}

// endRestore ends a restore whose leading came blocks arrived.
func (r *restoring) endRestore(id string, came int) {
	to := r.restores[id]
	if seq := r.byID[id]; !to.restored && (seq == nil || !seq.restoring || came == len(to.blocks)) {
		r.fillBlocks(id, came)
	}
	switch seq := r.byID[id]; {
	case to.restored:
	case seq != nil && seq.restoring && came == len(to.blocks):
		r.RestoreDone(id)
		to.restored = true
	default:
		r.RestoreFailed(id)
		r.fillBlocks(id, came)
	}
	for i, b := range to.blocks[:came] {
		if !to.restored {
			r.pool.Commit(b, to.hashes[len(to.begin)+i])
		}
	}
	r.pool.Release(slices.Concat(to.begin, to.blocks))
	delete(r.restores, id)
	r.Resume(id)
}

func (r *restoring) anyRestore(t *rapid.T) string {
	ids := make([]string, 0, len(r.restores))
	for id := range r.restores {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return rapid.SampledFrom(ids).Draw(t, "restore")
}

// TestOverlappedSequencesMatchIsolatedRuns starts sequences on blocks that are still being filled,
// fails restores and gates, and preempts and drops sequences at random. Each sequence gets the
// output of an isolated run, reads nothing that is absent, and no block leaks.
func TestOverlappedSequencesMatchIsolatedRuns(t *testing.T) {
	started, aborted, restored, partial := 0, 0, 0, 0
	run := func(t *rapid.T) {
		blocks := rapid.IntRange(3, 14).Draw(t, "blocks")
		limits := Limits{MaxSequences: rapid.IntRange(1, 4).Draw(t, "sequences"), MaxWaiting: 6,
			StepTokens: rapid.IntRange(4, 20).Draw(t, "tokens"), ContextTokens: blocks * blockTokens}
		r := newRestoring(t, limits, blocks, func() bool { return rapid.IntRange(0, 3).Draw(t, "gate") == 0 })
		next := 0
		dropped := map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				prompt := rapid.IntRange(1, min(blocks*blockTokens-1, 30)).Draw(t, "prompt")
				q := Request{ID: fmt.Sprint("r", next), Class: Class(rapid.IntRange(1, 3).Draw(t, "class")),
					Root: kv.Root("m", "", nil), Prompt: make([]uint32, prompt),
					MaxOutput: rapid.IntRange(1, 12).Draw(t, "max")}
				q.Prompt[0] = uint32(rapid.IntRange(0, 2).Draw(t, "family"))
				next++
				_ = r.submit(q)
			},
			"look": func(t *rapid.T) { r.startRestore() },
			"begin": func(t *rapid.T) {
				if len(r.restores) > 0 {
					r.startOverlap(r.anyRestore(t))
				}
			},
			"end": func(t *rapid.T) {
				if len(r.restores) > 0 {
					id := r.anyRestore(t)
					r.endRestore(id, rapid.IntRange(0, len(r.restores[id].blocks)).Draw(t, "came"))
				}
			},
			"step": func(t *rapid.T) { r.step(t) },
			"drop": func(t *rapid.T) {
				id := fmt.Sprint("r", rapid.IntRange(0, next).Draw(t, "id"))
				if r.Drop(id) {
					dropped[id] = true
				}
			},
		})
		r.fails = func() bool { return false }
		for turn := 0; len(r.restores) > 0 || len(r.byID) > 0; turn++ {
			if turn > 10000 {
				t.Fatalf("progress: %d restores and %d sequences are left", len(r.restores), len(r.byID))
			}
			for id, to := range r.restores {
				r.endRestore(id, len(to.blocks))
			}
			r.step(t)
		}
		for id, q := range r.requests {
			if output, finish := isolatedRun(q, limits.ContextTokens); !dropped[id] &&
				(r.finished[id] != finish || !slices.Equal(r.outputs[id], output)) {
				t.Fatalf("progress: %s got %v (%d), want %v (%d)", id, r.outputs[id], r.finished[id], output, finish)
			}
		}
		if r.pool.Free() != blocks {
			t.Fatalf("conservation: %d of %d blocks are free at the end", r.pool.Free(), blocks)
		}
		started, aborted, restored, partial = started+r.started, aborted+r.aborted, restored+r.restored,
			partial+r.partial
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 { // what is counted is rare
			run(t)
		}
	})
	if t.Logf("%d began, %d steps were aborted, %d restored in a step, %d ended in a partial block", started, aborted,
		restored, partial); started == 0 || aborted == 0 || restored == 0 || partial == 0 {
		t.Error("no run overlapped a restore; the test shows nothing")
	}
}

func TestStartRestoringRefuses(t *testing.T) {
	never := func() bool { return false }
	fresh := func(limits Limits, blocks int) *restoring {
		r := newRestoring(t, limits, blocks, never)
		r.submit(request("a", Standard, 9, 3))
		r.startRestore()
		return r
	}
	limits := Limits{MaxSequences: 2, MaxWaiting: 10, StepTokens: 16, ContextTokens: 64}
	r := fresh(limits, 16)
	r.submit(request("high", Interactive, 4, 3))
	if r.startOverlap("a") {
		t.Error("started although a higher class waits")
	}
	r.step(t)
	if !r.startOverlap("a") || r.startOverlap("a") {
		t.Error("did not start, or started twice")
	}
	if p, _ := r.Progress("a"); !p.Restoring || p.Tokens != 8 {
		t.Errorf("%+v", p)
	}
	r.step(t)
	if p, _ := r.Progress("a"); p.Restoring || p.Tokens != 9 || len(p.Hashes) != 2 {
		t.Errorf("after the step: %+v", p)
	}
	if n := r.pool.Match(r.restores["a"].hashes); n != 2 {
		t.Errorf("%d blocks are offered for sharing", n)
	}
	r = fresh(limits, 2)
	if r.startOverlap("a") {
		t.Error("started without a block for its tokens")
	}
	limits.MaxSequences = 1
	r = fresh(limits, 16)
	r.submit(request("b", Standard, 4, 3))
	r.step(t)
	if r.startOverlap("a") {
		t.Error("started without a free place")
	}
	r.endRestore("a", 0)
	r.restores["a"] = &restore{}
	if r.startOverlap("a") || r.StartRestoring("unknown", nil, 0) {
		t.Error("started a sequence that is unknown or not held")
	}
}

// TestRestoredTokensCountAsCached checks that restored tokens count as cached once they are
// restored, but not if they have to be recomputed.
func TestRestoredTokensCountAsCached(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := newRestoring(t, Limits{MaxSequences: 2, MaxWaiting: 10, StepTokens: 16, ContextTokens: 64}, 16,
			func() bool { return fails })
		r.submit(request("a", Standard, 9, 1))
		r.startRestore()
		r.startOverlap("a")
		if fails {
			r.step(t)
			r.endRestore("a", 0)
		}
		plan, _ := r.Plan(now)
		cached := map[bool]int{false: 8, true: 0}[fails]
		if got := r.Done(plan.Entries, []uint32{1}); len(got) != 1 || got[0].Cached != cached {
			t.Errorf("with failure %v: %+v", fails, got)
		}
	}
}
