package batch

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

// replicaPair is two replicas and the sequences migrating between them.
type replicaPair struct {
	at       [2]*harness
	moves    map[string]*moving
	stepping int // index of the replica with a step in flight; -1: none
	dropped  map[string]bool
	next     int // number of the next request
	adopted  int
}

type moving struct {
	from, to int
	res      *Reservation
	pinned   []int32 // blocks of the source being read
}

func newPair(t *rapid.T) *replicaPair {
	context := rapid.IntRange(2, 8).Draw(t, "context") * blockTokens
	p := &replicaPair{moves: map[string]*moving{}, stepping: -1, dropped: map[string]bool{}}
	for i := range p.at {
		blocks := context/blockTokens + rapid.IntRange(0, 6).Draw(t, "blocks")
		p.at[i] = newHarness(Limits{
			MaxSequences: rapid.IntRange(1, 4).Draw(t, "sequences"), MaxWaiting: 9,
			StepTokens: rapid.IntRange(1, 20).Draw(t, "tokens"), ContextTokens: context,
		}, blocks)
		p.at[i].limits.StepTokens = max(p.at[i].limits.StepTokens, p.at[i].limits.MaxSequences)
	}
	a, b := p.at[0], p.at[1]
	// shared: an output does not depend on the replica
	b.requests, b.outputs, b.finished = a.requests, a.outputs, a.finished
	return p
}

// pick draws one of the keys.
func pick[V any](t *rapid.T, m map[string]V) (string, bool) {
	if len(m) == 0 {
		return "", false
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(t, "id"), true
}

func (p *replicaPair) submit(t *rapid.T) {
	r := Request{
		ID: fmt.Sprint("r", p.next), Class: Class(rapid.IntRange(1, 3).Draw(t, "class")), Root: kv.Root("m", "", nil),
		Prompt:    rapid.SliceOfN(rapid.Uint32Range(0, 1), 1, p.at[0].limits.ContextTokens-1).Draw(t, "prompt"),
		MaxOutput: rapid.IntRange(1, 20).Draw(t, "max"),
	}
	p.next++
	if refusal := p.at[rapid.IntRange(0, 1).Draw(t, "where")].submit(r); refusal != nil && refusal.Reason != QueueFull {
		t.Fatalf("refused: %v", refusal)
	}
}

func (p *replicaPair) offer(t *rapid.T) {
	from := rapid.IntRange(0, 1).Draw(t, "from")
	src, dst := p.at[from], p.at[1-from]
	id, ok := pick(t, src.byID)
	if !ok || p.moves[id] != nil || src.byID[id].state != Running || p.stepping == 1-from {
		return
	}
	prog, _ := src.Progress(id)
	free := dst.pool.Free()
	res, refusal := dst.Reserve(src.byID[id].Request, prog.Hashes, prog.Tokens)
	if refusal == nil {
		p.moves[id] = &moving{from: from, to: 1 - from, res: res}
	} else if refusal.Detail == "" || dst.pool.Free() != free {
		t.Fatalf("%s: refused with %+v, %d blocks were free and are %d", id, refusal, free, dst.pool.Free())
	}
}

// copy copies a migrating sequence's blocks, only the full ones while it may still run.
func (p *replicaPair) copy(id string, m *moving, all bool) {
	src, dst := p.at[m.from], p.at[m.to]
	prog, _ := src.Progress(id)
	for i, b := range prog.Blocks {
		if i < m.res.Resident || i >= len(m.res.Blocks) || !all && i >= len(prog.Hashes) {
			continue
		}
		dst.written[m.res.Blocks[i]] = slices.Clone(src.written[b])
	}
}

// adopt completes a migration at the target, if possible.
func (p *replicaPair) adopt(t *rapid.T, id string, m *moving) {
	src, dst := p.at[m.from], p.at[m.to]
	seq := src.byID[id]
	if seq == nil || seq.state != Running || !seq.held || p.stepping == m.from {
		return
	}
	p.copy(id, m, true)
	r := seq.Request
	r.Output = slices.Clone(seq.output())
	prog, _ := src.Progress(id)
	refusal := dst.Adopt(m.res, r, prog.Tokens)
	if (refusal == nil) != (prog.Tokens <= len(m.res.Blocks)*blockTokens) {
		t.Fatalf("%s: %d tokens in %d blocks: %+v", id, prog.Tokens, len(m.res.Blocks), refusal)
	}
	if refusal == nil {
		src.Drop(id)
		p.adopted++
	}
	p.forget(id, m)
}

// forget ends a migration; the sequence continues at its replica.
func (p *replicaPair) forget(id string, m *moving) {
	p.at[m.from].pool.Release(m.pinned)
	p.at[m.to].Abandon(m.res)
	p.at[m.from].Resume(id)
	delete(p.moves, id)
}

// endStale ends the migrations of sequences that finished, were dropped or preempted.
func (p *replicaPair) endStale() {
	for id, m := range p.moves {
		if state, ok := p.at[m.from].State(id); !ok || state != Running {
			p.forget(id, m)
		}
	}
}

// act performs a random action on the migrations.
func (p *replicaPair) act(t *rapid.T) {
	id, ok := pick(t, p.moves)
	if !ok {
		return
	}
	m := p.moves[id]
	switch rapid.SampledFrom([]string{"copy", "hold", "adopt", "adopt", "pin", "unpin", "abandon"}).Draw(t, "act") {
	case "copy":
		p.copy(id, m, false)
	case "hold":
		p.at[m.from].Hold(id)
	case "adopt":
		p.adopt(t, id, m)
	case "pin":
		if prog, _ := p.at[m.from].Progress(id); m.pinned == nil && len(prog.Blocks) > 0 {
			m.pinned = prog.Blocks
			p.at[m.from].pool.Retain(m.pinned)
		}
	case "unpin":
		p.at[m.from].pool.Release(m.pinned)
		m.pinned = nil
	case "abandon":
		p.forget(id, m)
	}
}

// drop cancels a sequence at either replica.
func (p *replicaPair) drop(t *rapid.T) {
	h := p.at[rapid.IntRange(0, 1).Draw(t, "where")]
	if id, ok := pick(t, h.byID); ok {
		h.Drop(id)
		p.dropped[id] = true
	}
}

func (p *replicaPair) step(t *rapid.T, where int) bool {
	h := p.at[where]
	h.during = func() {
		p.stepping = where
		for range rapid.IntRange(0, 3).Draw(t, "during") {
			p.endStale()
			if rapid.IntRange(0, 5).Draw(t, "what") == 0 {
				p.drop(t)
			} else {
				p.act(t)
			}
		}
		p.stepping = -1
	}
	defer func() { h.during = nil }()
	return h.step(t)
}

// check verifies the invariants of one replica.
func (p *replicaPair) check(t *rapid.T, where int) {
	h := p.at[where]
	owners := map[int32]int{}    // references by block
	exclusive := map[int32]int{} // writers by block
	own := func(blocks []int32, shared int) {
		for i, b := range blocks {
			owners[b]++
			if i >= shared {
				exclusive[b]++
			}
		}
	}
	running := 0
	for _, seq := range h.byID {
		if seq.state == Running {
			running++
			own(seq.table, seq.computed/blockTokens)
		}
	}
	for _, m := range p.moves {
		if m.to == where {
			running++
			own(m.res.Blocks, m.res.Resident)
		}
	}
	for b, n := range exclusive {
		if n > 1 || owners[b] > n {
			t.Fatalf("owned: block %d has %d writers and %d owners", b, n, owners[b])
		}
	}
	for _, m := range p.moves {
		if m.from == where {
			own(m.pinned, len(m.pinned))
		}
	}
	stats := h.pool.Stats()
	if len(owners)+stats.Free != stats.Blocks {
		t.Fatalf("conservation: %d blocks owned and %d free of %d", len(owners), stats.Free, stats.Blocks)
	}
	if running > h.limits.MaxSequences || h.Running()+h.reserved != running || h.Running()+h.Waiting() != len(h.byID) {
		t.Fatalf("places: %d run or migrate here, %d run, %d wait, %d reserved; limits %+v", running, h.Running(),
			h.Waiting(), h.reserved, h.limits)
	}
}

// TestMigratedSequencesMatchIsolatedRuns migrates sequences between two replicas with random
// failures. Each gets the output of an isolated run, and no block leaks or has two owners.
func TestMigratedSequencesMatchIsolatedRuns(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t)
		for range 300 {
			rapid.SampledFrom([]func(*rapid.T){
				p.submit, p.offer, p.offer, p.act, p.act, p.act, p.drop,
				func(t *rapid.T) { p.step(t, 0) }, func(t *rapid.T) { p.step(t, 1) },
			}).Draw(t, "action")(t)
			p.endStale()
			p.check(t, 0)
			p.check(t, 1)
		}
		for id, m := range p.moves {
			p.forget(id, m)
		}
		for range 10000 {
			if a, b := p.at[0].step(t), p.at[1].step(t); !a && !b {
				break
			}
		}
		for id, r := range p.at[0].requests {
			output, finish := isolatedRun(r, p.at[0].limits.ContextTokens)
			if !p.dropped[id] && (p.at[0].finished[id] != finish || !slices.Equal(p.at[0].outputs[id], output)) {
				t.Fatalf("progress: %s got %v (%d), want %v (%d)", id, p.at[0].outputs[id], p.at[0].finished[id],
					output, finish)
			}
		}
		for _, h := range p.at {
			if s := h.pool.Stats(); s.Free != s.Blocks || len(h.byID) != 0 || h.held != 0 || h.reserved != 0 {
				t.Fatalf("conservation: %d of %d blocks are free at the end, %d held, %d reserved", s.Free, s.Blocks,
					h.held, h.reserved)
			}
		}
		moved += p.adopted
	})
	if moved == 0 {
		t.Error("no sequence migrated in any run; the test shows nothing")
	}
}

func TestReserveSharesResidentBlocks(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 8)
	r := request("r", Standard, 11, 8)
	h.submit(r)
	h.step(t)
	prog, _ := h.Progress("r") // 11 tokens: two full blocks, and three in the next
	if prog.Tokens != 11 || prog.Left != 1 || len(prog.Hashes) != 2 {
		t.Fatalf("%+v", prog)
	}
	r.ID = "moves here"
	for _, tc := range []struct {
		tokens, free     int
		hashes           []kv.Hash
		blocks, resident int
		want             Reason
	}{
		{11, 5, prog.Hashes, 5, 2, 0},                    // three, and two for growth
		{11, 1, prog.Hashes, 3, 2, 0},                    // none left for growth
		{11, 0, prog.Hashes, 0, 0, NoRoom},               // one missing
		{11, 5, []kv.Hash{{1}, prog.Hashes[1]}, 5, 0, 0}, // blocks after an unknown one are not shared
		{11, 2, []kv.Hash{{1}, {2}}, 0, 0, NoRoom},       // three needed
		{11, 5, prog.Hashes[:1], 0, 0, Invalid}, {0, 5, nil, 0, 0, Invalid},
		{64, 5, make([]kv.Hash, 16), 0, 0, Invalid},
	} {
		var taken []int32
		for h.pool.Free() > tc.free {
			b, _ := h.pool.Allocate()
			taken = append(taken, b)
		}
		res, refusal := h.Reserve(r, tc.hashes, tc.tokens)
		switch {
		case (refusal == nil) != (tc.want == 0), refusal != nil && (refusal.Reason != tc.want || refusal.Detail == ""):
			t.Errorf("%+v: %+v", tc, refusal)
		case refusal == nil && (len(res.Blocks) != tc.blocks || res.Resident != tc.resident):
			t.Errorf("%+v: %d blocks, %d resident", tc, len(res.Blocks), res.Resident)
		case refusal == nil:
			h.Abandon(res)
		}
		if h.pool.Release(taken); h.pool.Free() != 5 {
			t.Fatalf("%+v: %d blocks are free afterwards", tc, h.pool.Free())
		}
	}
	r.Adapter = "a"
	if _, refusal := h.Reserve(r, prog.Hashes, 11); refusal == nil || refusal.Reason != NoAdapter {
		t.Errorf("an adapter where none are served: %+v", refusal)
	}
}

func TestAdoptRefusesMismatchedReservation(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 16)
	r := request("r", Standard, 12, 8)
	h.submit(r)
	h.step(t)
	prog, _ := h.Progress("r")
	r.Output = []uint32{1}
	other := request("x", Standard, 12, 8)
	other.Root, other.Prompt = r.Root, slices.Clone(r.Prompt)
	other.Prompt[5]++
	other.Output = r.Output
	same := r
	same.ID = "x"
	for name, tc := range map[string]struct {
		r      Request
		tokens int
		want   Reason
	}{
		"other tokens": {other, 12, Invalid}, "nothing to compute": {same, 13, Invalid},
		"nothing computed": {same, 0, Invalid}, "here already": {r, 12, Duplicate},
		"complete": {func() Request { c := same; c.Output = make([]uint32, 8); return c }(), 12, Finished},
	} {
		offer := request("x", Standard, 12, 8)
		res, refusal := h.Reserve(offer, prog.Hashes, prog.Tokens)
		if refusal != nil {
			t.Fatal(refusal)
		}
		if refusal = h.Adopt(res, tc.r, tc.tokens); refusal == nil || refusal.Reason != tc.want {
			t.Errorf("%s: %+v", name, refusal)
		}
		if h.Adopt(res, same, 12) == nil {
			t.Errorf("%s: adopted after a refusal", name)
		}
		h.Abandon(res)
	}
	if h.pool.Free() != 16-3 || h.reserved != 0 {
		t.Errorf("%d blocks are free, %d places reserved", h.pool.Free(), h.reserved)
	}
}

func TestHeldSequenceIsNotPlanned(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 2, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 16)
	for _, id := range []string{"a", "b", "c"} {
		h.submit(request(id, Standard, 4, 8))
	}
	h.step(t)
	if !h.Hold("a") || h.Hold("a") || !h.Hold("c") || h.Hold("unknown") {
		t.Error("Hold returned the wrong result")
	}
	if plan, _ := h.Plan(now); fmt.Sprint(ids(plan)) != "[b:1]" || h.Running() != 2 || h.Waiting() != 1 {
		t.Errorf("step %v, %d run, %d wait; held sequences must keep their places", ids(plan), h.Running(), h.Waiting())
	}
	h.Resume("a")
	h.Resume("a")
	h.Drop("b")
	if plan, _ := h.Plan(now); fmt.Sprint(ids(plan)) != "[a:1]" {
		t.Errorf("%v", ids(plan))
	}
	h.Resume("c")
	if plan, _ := h.Plan(now); fmt.Sprint(ids(plan)) != "[a:1 c:4]" {
		t.Errorf("%v", ids(plan))
	}
}
