package batch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

const blockTokens = 4

// now is a time at which no request is old.
var now time.Time

// oracle is the output of the "model": a function of all previous tokens. A preempted and
// recomputed sequence thus continues with the same tokens.
func oracle(tokens []uint32) uint32 {
	h := uint32(17)
	for _, t := range tokens {
		h = h*31 + t + 1
	}
	return h % 50
}

// oracle is the model's output with the request's adapter.
func (r Request) oracle(tokens []uint32) uint32 {
	if r.Adapter == "" {
		return oracle(tokens)
	}
	return oracle(append([]uint32{1000 + uint32(r.Adapter[0])}, tokens...))
}

// harness runs a scheduler and checks every step against its invariants.
type harness struct {
	*Scheduler
	pool     *kv.Pool
	limits   Limits
	requests map[string]Request
	outputs  map[string][]uint32
	finished map[string]Finish
	written  map[int32][]uint32 // block -> for each slot, the tokens of the sequence up to it
	during   func()             // called while a step is in flight; nil: nothing
	planned  func(Step)         // called before a step starts; nil: nothing
	abort    func(Step) bool    // called in flight, reports whether the step is aborted; nil: it is not
	now      time.Time
}

func newHarness(limits Limits, blocks int) *harness {
	pool := kv.NewPool(blocks, blockTokens)
	return &harness{
		Scheduler: New(limits, pool), pool: pool, limits: limits, requests: map[string]Request{},
		outputs:  map[string][]uint32{},
		finished: map[string]Finish{}, written: map[int32][]uint32{},
	}
}

type fataler interface{ Fatalf(string, ...any) }

func (h *harness) submit(r Request) *Refusal {
	_, refusal := h.Submit(r)
	if refusal == nil {
		h.requests[r.ID], h.outputs[r.ID] = r, slices.Clone(r.Output)
	}
	return refusal
}

// step plans, checks, computes and applies one step. It reports whether there was one.
func (h *harness) step(t fataler) bool {
	best := Class(0)
	for _, s := range h.waiting {
		best = max(best, s.Class)
	}
	plan, ok := h.Plan(h.now)
	if h.planned != nil {
		h.planned(plan)
	}
	if !ok {
		return false
	}
	if h.abort != nil && h.abort(plan) {
		return true
	}
	tokens, writers := 0, map[int32]string{}
	var sampled []uint32
	for _, e := range plan.Entries {
		tokens += len(e.Tokens)
		r := h.requests[e.ID]
		all := slices.Concat(r.Prompt, h.outputs[e.ID])
		end := e.Position + len(e.Tokens)
		if !slices.Equal(all[e.Position:end], e.Tokens) || e.Sample != (end == len(all)) {
			t.Fatalf("%s: computes %v at %d, its tokens are %v", e.ID, e.Tokens, e.Position, all)
		}
		if len(e.Blocks)*blockTokens < end {
			t.Fatalf("covered: %s has %d blocks for %d tokens", e.ID, len(e.Blocks), end)
		}
		for p := range end { // every key read must belong to this exact prefix
			block, slot := e.Blocks[p/blockTokens], p%blockTokens
			if p >= e.Position {
				if other, taken := writers[block]; taken && other != e.ID {
					t.Fatalf("covered: %s and %s write to block %d", e.ID, other, block)
				}
				writers[block] = e.ID
				h.written[block] = append(slices.Clone(h.written[block][:min(slot, len(h.written[block]))]),
					r.oracle(all[:p+1]))
			}
			if len(h.written[block]) <= slot || h.written[block][slot] != r.oracle(all[:p+1]) {
				t.Fatalf("%s reads position %d in block %d, which has other content", e.ID, p, block)
			}
		}
		if e.Sample {
			sampled = append(sampled, r.oracle(all))
		}
	}
	if tokens > h.limits.StepTokens || len(h.running) > h.limits.MaxSequences {
		t.Fatalf("budget: %d tokens, %d running, of %+v", tokens, len(h.running), h.limits)
	}
	if h.during != nil {
		h.during()
	}
	for _, e := range h.Done(plan.Entries, sampled) {
		h.checkEmission(t, e)
	}
	return true
}

func (h *harness) checkEmission(t fataler, e Emission) {
	r := h.requests[e.ID]
	if e.Index != len(h.outputs[e.ID]) {
		t.Fatalf("contiguous: %s emits index %d after %d tokens", e.ID, e.Index, len(h.outputs[e.ID]))
	}
	h.outputs[e.ID] = append(h.outputs[e.ID], e.Token)
	if e.Finish != None {
		h.finished[e.ID] = e.Finish
	}
	if len(r.Output) == 0 && e.Cached > len(r.Prompt)-1 {
		t.Fatalf("%s: %d of %d prompt tokens are cached; the last must be computed", e.ID, e.Cached, len(r.Prompt))
	}
}

// isolatedRun returns the output of a request that runs alone.
func isolatedRun(r Request, context int) ([]uint32, Finish) {
	all := slices.Concat(r.Prompt, r.Output)
	for {
		token := r.oracle(all)
		all = append(all, token)
		n := len(all) - len(r.Prompt)
		switch {
		case n-1 >= r.MinOutput && slices.Contains(r.Stops, token):
			return all[len(r.Prompt):], Stop
		case n >= r.MaxOutput || len(all) >= context:
			return all[len(r.Prompt):], Length
		}
	}
}

// TestSequencesMatchIsolatedRuns checks that a sequence gets the output of an isolated run,
// whatever else runs, is preempted or dropped.
func TestSequencesMatchIsolatedRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(2, 12).Draw(t, "blocks")
		limits := Limits{
			MaxSequences: rapid.IntRange(1, 5).Draw(t, "sequences"), MaxWaiting: 6,
			StepTokens:    rapid.IntRange(1, 20).Draw(t, "tokens"),
			ContextTokens: blocks * blockTokens,
		}
		h := newHarness(limits, blocks)
		h.limits.StepTokens = max(limits.StepTokens, limits.MaxSequences)
		next := 0
		dropped := map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				r := Request{
					ID: fmt.Sprint("r", next), Class: Class(rapid.IntRange(1, 3).Draw(t, "class")),
					Root:      kv.Root("m", "", nil),
					Prompt:    rapid.SliceOfN(rapid.Uint32Range(0, 1), 1, blocks*blockTokens+2).Draw(t, "prompt"),
					MaxOutput: rapid.IntRange(1, 12).Draw(t, "max"), MinOutput: rapid.IntRange(0, 2).Draw(t, "min"),
					Stops:  rapid.SliceOfN(rapid.Uint32Range(0, 49), 0, 4).Draw(t, "stops"),
					Client: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "client"),
					Weight: rapid.Float64Range(0, 4).Draw(t, "weight"),
				}
				next++
				before := len(h.byID)
				refusal := h.submit(r)
				switch {
				case len(r.Prompt) >= limits.ContextTokens:
					if refusal == nil || refusal.Reason != TooLong {
						t.Fatalf("a prompt of %d tokens in a context of %d: %v", len(r.Prompt), limits.ContextTokens,
							refusal)
					}
				case before >= limits.MaxSequences+limits.MaxWaiting:
					if refusal == nil || refusal.Reason != QueueFull {
						t.Fatalf("queue full: %v", refusal)
					}
				case refusal != nil:
					t.Fatalf("refused: %v", refusal)
				}
			},
			"step": func(t *rapid.T) { h.step(t) },
			"drop": func(t *rapid.T) {
				if len(h.byID) == 0 {
					return
				}
				var ids []string
				for id := range h.byID {
					ids = append(ids, id)
				}
				slices.Sort(ids)
				id := rapid.SampledFrom(ids).Draw(t, "id")
				h.Drop(id)
				dropped[id] = true
			},
			"move": func(t *rapid.T) { // as after a crash of the replica: resubmit the request with its output
				for id, seq := range h.byID {
					r := seq.Request
					r.Output = slices.Clone(h.outputs[id])
					h.Drop(id)
					if refusal := h.submit(r); refusal != nil {
						t.Fatalf("a resubmitted sequence is refused: %v", refusal)
					}
					return
				}
			},
		})
		for range 10000 {
			if !h.step(t) {
				break
			}
		}
		for id, r := range h.requests {
			if dropped[id] {
				continue
			}
			r.Output = nil
			output, finish := isolatedRun(r, limits.ContextTokens)
			if h.finished[id] != finish || !slices.Equal(h.outputs[id], output) {
				t.Fatalf("progress: %s got %v (%d), want %v (%d)", id, h.outputs[id], h.finished[id], output, finish)
			}
		}
		if h.pool.Free() != blocks || len(h.byID) != 0 {
			t.Fatalf("conservation: %d of %d blocks are free at the end", h.pool.Free(), blocks)
		}
	})
}

func request(id string, class Class, prompt, output int) Request {
	r := Request{ID: id, Class: class, MaxOutput: output, Root: kv.Root("m", id, nil)}
	for i := range prompt {
		r.Prompt = append(r.Prompt, uint32(i))
	}
	return r
}

func ids(s Step) (all []string) {
	for _, e := range s.Entries {
		all = append(all, fmt.Sprintf("%s:%d", e.ID, len(e.Tokens)))
	}
	return all
}

func TestPlanOrder(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 3, MaxWaiting: 10, StepTokens: 10, ContextTokens: 64}, 16)
	for _, r := range []Request{request("batch", Batch, 6, 9), request("late", Standard, 6, 9),
		request("first", Interactive, 6, 9)} {
		h.submit(r)
	}
	plan, _ := h.Plan(now)
	if got := fmt.Sprint(ids(plan)); got != "[first:6 late:4]" {
		t.Errorf("want admission by class, with chunks within the budget: %s", got)
	}
	h.Done(plan.Entries, []uint32{1})
	plan, _ = h.Plan(now)
	if got := fmt.Sprint(ids(plan)); got != "[first:1 late:2 batch:6]" {
		t.Errorf("want decodes, then prefills, then admission: %s", got)
	}
}

func TestHigherClassPreemptsLower(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 1, MaxWaiting: 10, StepTokens: 16, ContextTokens: 64}, 16)
	h.submit(request("low", Batch, 5, 9))
	h.step(t)
	h.submit(request("same", Batch, 5, 9))
	if plan, _ := h.Plan(now); len(plan.Preempted) != 0 {
		t.Fatalf("a sequence of the same class was preempted: %v", plan.Preempted)
	}
	h.submit(request("high", Interactive, 5, 9))
	plan, _ := h.Plan(now)
	if len(plan.Preempted) != 1 || plan.Preempted[0].ID != "low" || fmt.Sprint(ids(plan)) != "[high:5]" {
		t.Fatalf("preempted %v, step %v", plan.Preempted, ids(plan))
	}
	if s, _ := h.State("low"); s != Preempted {
		t.Errorf("low is %s", s)
	}
}

func TestLastInOrderIsPreemptedForABlock(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 16}, 4)
	h.submit(request("a", Standard, 4, 8))
	h.submit(request("b", Standard, 4, 8))
	h.step(t) // both will need 2 of 4 blocks
	for len(h.running) == 2 {
		plan, _ := h.Plan(now)
		if len(plan.Preempted) > 0 {
			if plan.Preempted[0].ID != "b" || plan.Preempted[0].Why == "" {
				t.Fatalf("preempted %v", plan.Preempted)
			}
			return
		}
		var sampled []uint32
		for range plan.Entries {
			sampled = append(sampled, 1)
		}
		h.Done(plan.Entries, sampled)
	}
	t.Fatal("nothing was preempted, though 6 of 4 blocks are needed")
}

func TestRepeatedPromptSkipsItsPrefill(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 16)
	r := request("x", Standard, 12, 1)
	h.submit(r)
	h.step(t)
	r.ID = "again"
	h.submit(r)
	plan, _ := h.Plan(now)
	if e := plan.Entries[0]; len(e.Tokens) != 4 || e.Position != 8 {
		t.Fatalf("computes %d tokens from position %d; two of three blocks are cached", len(e.Tokens), e.Position)
	}
	if got := h.Done(plan.Entries, []uint32{3}); got[0].Cached != 8 {
		t.Fatalf("reports %d cached tokens", got[0].Cached)
	}
}

// TestOwnBlocksAreNotCachedTokens checks that a sequence that begins with output, since it comes from another
// replica, does not report the blocks that it finds.
func TestOwnBlocksAreNotCachedTokens(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 16)
	r := request("x", Standard, 12, 1)
	h.submit(r)
	h.step(t)
	r.ID, r.MaxOutput, r.Output = "moved", 2, []uint32{3}
	h.submit(r)
	plan, _ := h.Plan(now)
	if e := plan.Entries[0]; e.Position == 0 {
		t.Fatalf("computes %d tokens from position 0; blocks are cached", len(e.Tokens))
	}
	if got := h.Done(plan.Entries, []uint32{3}); got[0].Cached != 0 {
		t.Fatalf("reports %d cached tokens", got[0].Cached)
	}
}

// TestDiscardedBlocksAreNotReused checks that a prompt is computed again if the content of its blocks was
// invalid.
func TestDiscardedBlocksAreNotReused(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 16)
	r := request("x", Standard, 12, 4)
	h.submit(r)
	h.step(t)
	if !h.Discard("x") || h.Discard("x") {
		t.Fatal("a sequence must be discarded once")
	}
	r.ID = "again"
	h.submit(r)
	plan, _ := h.Plan(now)
	if e := plan.Entries[0]; len(e.Tokens) != 12 || e.Position != 0 {
		t.Fatalf("computes %d tokens from position %d, want all 12", len(e.Tokens), e.Position)
	}
}

func TestRefusals(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 1, MaxWaiting: 1, StepTokens: 8, ContextTokens: 16}, 4)
	complete := request("c", Standard, 4, 2)
	complete.Output = []uint32{1, 2}
	moved := request("moved", Standard, 4, 8)
	moved.Output = []uint32{1}
	for _, tc := range []struct {
		r    Request
		want Reason
	}{
		{request("", Standard, 4, 2), Invalid}, {request("a", Standard, 0, 2), Invalid},
		{request("a", Standard, 4, 0), Invalid},
		{request("a", Standard, 16, 2), TooLong}, {complete, Finished},
		{request("a", Standard, 4, 2), 0}, {request("a", Standard, 4, 2), Duplicate}, {request("b", Standard, 4, 2), 0},
		{request("d", Standard, 4, 2), QueueFull}, {moved, 0},
	} {
		if got := h.submit(tc.r); (got == nil) != (tc.want == 0) || got != nil &&
			(got.Reason != tc.want || got.Detail == "") {
			t.Errorf("%q: refused with %v, want %d", tc.r.ID, got, tc.want)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	h := newHarness(Limits{MaxSequences: 64, MaxWaiting: 10, StepTokens: 512, ContextTokens: 1024}, 64*256)
	for i := range 64 {
		h.Submit(request(fmt.Sprint(i), Standard, 100, 400+i))
	}
	sampled := make([]uint32, 64)
	b.ReportAllocs()
	for b.Loop() {
		plan, _ := h.Plan(now)
		n := 0
		for _, e := range plan.Entries {
			if e.Sample {
				n++
			}
		}
		for _, e := range h.Done(plan.Entries, sampled[:n]) {
			if e.Finish != None {
				h.Submit(request(e.ID, Standard, 100, 400))
			}
		}
	}
}
