package batch

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

// restoring is a harness whose waiting sequences can have what they need restored, as a replica does it, out of a tier that has everything.
type restoring struct {
	*harness
	t        fataler
	restores map[string]*restore // by request
	fails    func() bool         // whether a gate does
	begun    int
	voided   int
	landed   int
	partial  int // restores that ended in a partial block
}

// restore fills blocks, behind those that are resident.
type restore struct {
	hashes        []kv.Hash
	begin, blocks []int32
	tokens        int // that they hold
	landed        bool
}

func newRestoring(t fataler, limits Limits, blocks int, fails func() bool) *restoring {
	r := &restoring{harness: newHarness(limits, blocks), t: t, restores: map[string]*restore{}, fails: fails}
	r.void = r.gates
	r.planned = func(plan Step) {
		for _, p := range plan.Preempted {
			to := r.restores[p.ID]
			if seq := r.byID[p.ID]; seq != nil && seq.held != (to != nil && !to.landed) {
				t.Fatalf("%s gave way, and is held: %v", p.ID, seq.held)
			}
		}
	}
	return r
}

// look begins a restore for the sequence that is next.
func (r *restoring) look() *restore {
	id, hashes, ok := r.First()
	have := r.pool.Match(hashes)
	if !ok || have == len(hashes) || r.restores[id] != nil {
		return nil
	}
	r.Hold(id)
	to := &restore{hashes: hashes, begin: r.pool.Acquire(hashes[:have]), tokens: len(hashes) * blockTokens}
	if seq := r.byID[id]; len(hashes) > len(seq.reusable(blockTokens)) {
		to.tokens = seq.parked
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

// start begins a sequence whose restore is not over.
func (r *restoring) start(id string) bool {
	to := r.restores[id]
	ok := r.Begin(id, slices.Concat(to.begin, to.blocks), len(to.begin))
	if ok {
		r.begun++
	}
	return ok
}

// fill is what the copies of the leading blocks do.
func (r *restoring) fill(id string, many int) {
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

// gates fills what a step reads as it runs, or makes it void: then the slots that it was to write hold nothing of use.
func (r *restoring) gates(plan Step) bool {
	for _, e := range plan.Entries {
		to := r.restores[e.ID]
		if !e.Arriving {
			continue
		}
		for i, b := range to.blocks {
			found := r.pool.Acquire(to.hashes[len(to.begin)+i : len(to.begin)+i+1])
			if len(found) > 0 && found[0] == b {
				r.t.Fatalf("arrived: %s: block %d is offered before it is filled", e.ID, b)
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
			r.Fall(e.ID)
			r.voided++
			return true
		}
		r.fill(e.ID, len(to.blocks))
	}
	for _, e := range plan.Entries {
		if e.Arriving {
			r.restores[e.ID].landed = true
			r.landed++
		}
	}
	return false
}

// end settles a restore of which the leading blocks came.
func (r *restoring) end(id string, came int) {
	to := r.restores[id]
	if seq := r.byID[id]; !to.landed && (seq == nil || !seq.arriving || came == len(to.blocks)) {
		r.fill(id, came)
	}
	switch seq := r.byID[id]; {
	case to.landed:
	case seq != nil && seq.arriving && came == len(to.blocks):
		r.Land(id)
		to.landed = true
	default:
		r.Fall(id)
		r.fill(id, came)
	}
	for i, b := range to.blocks[:came] {
		if !to.landed {
			r.pool.Commit(b, to.hashes[len(to.begin)+i])
		}
	}
	r.pool.Release(slices.Concat(to.begin, to.blocks))
	delete(r.restores, id)
	r.Resume(id)
}

func (r *restoring) any(t *rapid.T) string {
	ids := make([]string, 0, len(r.restores))
	for id := range r.restores {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return rapid.SampledFrom(ids).Draw(t, "restore")
}

// TestBeginAgainstAlone: whenever sequences begin on blocks that are still being filled, however their restores and gates fare, and whoever gives way or is dropped
// meanwhile, each gets what it would have got alone, nothing is read that is not there, and no block is lost.
func TestBeginAgainstAlone(t *testing.T) {
	begun, voided, landed, partial := 0, 0, 0, 0
	run := func(t *rapid.T) {
		blocks := rapid.IntRange(3, 14).Draw(t, "blocks")
		limits := Limits{MaxSequences: rapid.IntRange(1, 4).Draw(t, "sequences"), MaxWaiting: 6, StepTokens: rapid.IntRange(4, 20).Draw(t, "tokens"), ContextTokens: blocks * blockTokens}
		r := newRestoring(t, limits, blocks, func() bool { return rapid.IntRange(0, 3).Draw(t, "gate") == 0 })
		next := 0
		dropped := map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				prompt := rapid.IntRange(1, min(blocks*blockTokens-1, 30)).Draw(t, "prompt")
				q := Request{ID: fmt.Sprint("r", next), Class: Class(rapid.IntRange(1, 3).Draw(t, "class")), Root: kv.Root("m", "", nil), Prompt: make([]uint32, prompt), MaxOutput: rapid.IntRange(1, 12).Draw(t, "max")}
				q.Prompt[0] = uint32(rapid.IntRange(0, 2).Draw(t, "family"))
				next++
				_ = r.submit(q)
			},
			"look": func(t *rapid.T) { r.look() },
			"begin": func(t *rapid.T) {
				if len(r.restores) > 0 {
					r.start(r.any(t))
				}
			},
			"end": func(t *rapid.T) {
				if len(r.restores) > 0 {
					id := r.any(t)
					r.end(id, rapid.IntRange(0, len(r.restores[id].blocks)).Draw(t, "came"))
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
				t.Fatalf("progress: %d restores, %d sequences are left", len(r.restores), len(r.byID))
			}
			for id, to := range r.restores {
				r.end(id, len(to.blocks))
			}
			r.step(t)
		}
		for id, q := range r.requests {
			if output, finish := want(q, limits.ContextTokens); !dropped[id] && (r.finished[id] != finish || !slices.Equal(r.outputs[id], output)) {
				t.Fatalf("progress: %s got %v (%d), want %v (%d)", id, r.outputs[id], r.finished[id], output, finish)
			}
		}
		if r.pool.Free() != blocks {
			t.Fatalf("conservation: %d of %d blocks are free at the end", r.pool.Free(), blocks)
		}
		begun, voided, landed, partial = begun+r.begun, voided+r.voided, landed+r.landed, partial+r.partial
	}
	for rounds := 0; rounds < 20 || rounds < 1000 && (voided == 0 || landed == 0 || partial == 0); rounds++ {
		rapid.Check(t, run)
	}
	if t.Logf("%d began, %d steps were void, %d landed in a step, %d ended in a partial block", begun, voided, landed, partial); begun == 0 || voided == 0 || landed == 0 || partial == 0 {
		t.Error("this shows nothing")
	}
}

func TestBeginRefuses(t *testing.T) {
	never := func() bool { return false }
	fresh := func(limits Limits, blocks int) *restoring {
		r := newRestoring(t, limits, blocks, never)
		r.submit(request("a", Standard, 9, 3))
		r.look()
		return r
	}
	limits := Limits{MaxSequences: 2, MaxWaiting: 10, StepTokens: 16, ContextTokens: 64}
	r := fresh(limits, 16)
	r.submit(request("high", Interactive, 4, 3))
	if r.start("a") {
		t.Error("one of a higher class waits")
	}
	r.step(t)
	if !r.start("a") || r.start("a") {
		t.Error("it does not begin, or twice")
	}
	if p, _ := r.Progress("a"); !p.Arriving || p.Tokens != 8 {
		t.Errorf("%+v", p)
	}
	r.step(t)
	if p, _ := r.Progress("a"); p.Arriving || p.Tokens != 9 || len(p.Hashes) != 2 {
		t.Errorf("after its step %+v", p)
	}
	if n := r.pool.Match(r.restores["a"].hashes); n != 2 {
		t.Errorf("%d of its blocks are offered to others", n)
	}
	r = fresh(limits, 2)
	if r.start("a") {
		t.Error("there is no block for its tokens")
	}
	limits.MaxSequences = 1
	r = fresh(limits, 16)
	r.submit(request("b", Standard, 4, 3))
	r.step(t)
	if r.start("a") {
		t.Error("there is no place")
	}
	r.end("a", 0)
	r.restores["a"] = &restore{}
	if r.start("a") || r.Begin("nobody", nil, 0) {
		t.Error("one begins that is not held, or not there")
	}
}

// TestBegunIsCounted: what came from below counts as cached once it is there, and not where it has to be computed after all.
func TestBegunIsCounted(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := newRestoring(t, Limits{MaxSequences: 2, MaxWaiting: 10, StepTokens: 16, ContextTokens: 64}, 16, func() bool { return fails })
		r.submit(request("a", Standard, 9, 1))
		r.look()
		r.start("a")
		if fails {
			r.step(t)
			r.end("a", 0)
		}
		plan, _ := r.Plan(now)
		cached := map[bool]int{false: 8, true: 0}[fails]
		if got := r.Done(plan.Entries, []uint32{1}); len(got) != 1 || got[0].Cached != cached {
			t.Errorf("fails %v: %+v", fails, got)
		}
	}
}
