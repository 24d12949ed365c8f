package llama_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit"
)

// decoding returns a sampled sequence whose distribution is compared.
func decoding(seed uint64, blocks ...int32) *generation {
	g := &generation{want: 40, blocks: blocks, params: sample.Params{
		Temperature: 0.8, Seed: seed, Logprobs: true, TopLogprobs: vocab,
	}}
	for i := range uint64(9) {
		g.prompt = append(g.prompt, uint32(3+(seed*7+i*31)%1000))
	}
	return g
}

// TestGraphsAfterResize grows and shrinks the KV memory between steps. The graphs stay valid, since the
// addresses of the blocks do not change.
func TestGraphsAfterResize(t *testing.T) {
	with := newGraphReplica(t, llama.AllGraphs, host.Config{}, kvBlocks)
	without := newGraphReplica(t, llama.NoGraphs, host.Config{}, kvBlocks)
	with.capture(t)
	got := []*generation{decoding(1, 0, 1, 2, 3), decoding(2, 4, 5, 6, 7), decoding(3, 8, 9, 10, 11)}
	want := []*generation{decoding(1, 0, 1, 2, 3), decoding(2, 4, 5, 6, 7), decoding(3, 8, 9, 10, 11)}
	for i := 0; !got[0].done(); i++ {
		blocks := []int{12, 400, 13, 900}[i%4]
		if _, err := with.store.Resize("m", blocks); err != nil {
			t.Fatal(err)
		}
		if blocks > 13 { // a sequence with blocks that were not there at the capture
			high := decoding(9, int32(blocks-1), int32(blocks-2), int32(blocks-3))
			high.want = 3
			other := decoding(9, 13, 14, 15)
			other.want = 3
			for !high.done() {
				with.step(t, high)
				without.step(t, other)
			}
			sameTokens(t, "high blocks", high.tokens, other.tokens)
		}
		stepAll(t, with.engine, limits.StepTokens, got...)
		stepAll(t, without.engine, limits.StepTokens, want...)
	}
	for i := range got {
		sameTokens(t, "resized", got[i].tokens, want[i].tokens)
	}
	if with.spy.captured != 10 || with.spy.replayed < 39 {
		t.Errorf("%d graphs captured, %d launched", with.spy.captured, with.spy.replayed)
	}
	removed := decoding(4, 12, 13).next(1)
	if _, err := with.store.Resize("m", 12); err != nil {
		t.Fatal(err)
	}
	if _, err := with.engine.Step(t.Context(), []engine.Sequence{removed}); err == nil {
		t.Error("a removed block was used")
	}
}

// TestGraphMemory compares the operations of each graph, for which the memory of graphs is counted, with
// those that are captured.
func TestGraphMemory(t *testing.T) {
	r := newGraphReplica(t, llama.AllGraphs, host.Config{}, kvBlocks)
	r.capture(t)
	info, err := (llama.Loader{}).Inspect(testkit.Model(), r.device.Info())
	if err != nil || info.GraphMemory(limits) != 0 { // the software device takes none
		t.Fatalf("%d bytes, %v", info.GraphMemory(limits), err)
	}
	for i, ops := range r.spy.ops {
		if want := []int{info.GraphOps, info.LoRAGraphOps}[i%2]; ops != want {
			t.Errorf("graph %d has %d operations, want %d", i, ops, want)
		}
	}
	info.GraphOpBytes = 1 << 10
	var all int64
	for _, ops := range r.spy.ops {
		all += int64(ops) << 10
	}
	if got := info.GraphMemory(limits); got != all || len(r.spy.ops) != 10 {
		t.Errorf("%d bytes of %d graphs, want %d", got, len(r.spy.ops), all)
	}
	without := limits
	without.MaxAdapters = 0
	if got, want := info.GraphMemory(without), 5*int64(info.GraphOps)<<10; got != want {
		t.Errorf("%d bytes without adapters, want %d", got, want)
	}
}

// TestGraphsWriteOnlyTheirBlocks checks that captures write to no block, and that a graph with padding
// writes only to the blocks of its sequences.
func TestGraphsWriteOnlyTheirBlocks(t *testing.T) {
	r := newGraphReplica(t, llama.AllGraphs, host.Config{}, kvBlocks)
	block := func(i int32) []byte {
		b := make([]byte, r.blocks.BlockBytes())
		if err := r.blocks.Read(t.Context(), i, b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	var before [][]byte
	for i := range int32(kvBlocks) {
		b := bytes.Repeat([]byte{byte(i + 1), 0x5a, 0x11, 0x3c}, r.blocks.BlockBytes()/4)
		if err := r.blocks.Write(t.Context(), i, b); err != nil {
			t.Fatal(err)
		}
		before = append(before, b)
	}
	r.capture(t)
	for i := range before {
		if !bytes.Equal(block(int32(i)), before[i]) {
			t.Fatalf("the capture wrote to block %d", i)
		}
	}
	gs := []*generation{decoding(1, 3, 9, 4, 8), decoding(2, 15, 1, 7, 14), decoding(3, 2, 10, 6, 5)}
	var owned []int32
	for _, g := range gs {
		owned = append(owned, g.blocks...)
	}
	for !gs[0].done() {
		stepAll(t, r.engine, limits.StepTokens, gs...)
	}
	if r.spy.replayed != 39 {
		t.Fatalf("%d graphs launched", r.spy.replayed)
	}
	for i := range before {
		if own := slices.Contains(owned, int32(i)); !own && !bytes.Equal(block(int32(i)), before[i]) {
			t.Errorf("block %d of no sequence was written to", i)
		}
	}
}

// TestGraphsAfterCopyOnWrite lets a second sequence branch off the first one: it shares the full blocks,
// and has a copy of the last.
func TestGraphsAfterCopyOnWrite(t *testing.T) {
	with := newGraphReplica(t, llama.AllGraphs, host.Config{}, kvBlocks)
	without := newGraphReplica(t, llama.NoGraphs, host.Config{}, kvBlocks)
	with.capture(t)
	first := decoding(1, 0, 1, 2, 3)
	for len(first.output) < 14 {
		with.step(t, first)
	}
	second := decoding(5, 0, 8, 9, 10)
	second.prompt, second.computed = first.all(), first.computed
	if err := move(t.Context(), with.blocks, with.blocks, first.blocks[1:2], second.blocks[1:2]); err != nil {
		t.Fatal(err)
	}
	second.want = 20
	for !second.done() {
		stepAll(t, with.engine, limits.StepTokens, first, second)
	}
	wantSecond, wantFirst := decoding(5, 0, 1, 2, 3), decoding(1, 0, 1, 2, 3)
	wantSecond.prompt, wantSecond.want, wantFirst.want = second.prompt, second.want, len(first.output)
	runAlone(t, without.engine, wantFirst)
	sameTokens(t, "the first", first.tokens, wantFirst.tokens)
	runAlone(t, without.engine, wantSecond)
	sameTokens(t, "the second", second.tokens, wantSecond.tokens)
}

// TestFailedCapture lets captures fail at each graph, and by a fault of the device. The engine then has no
// graphs and no memory of theirs, steps run without, and a later capture succeeds.
func TestFailedCapture(t *testing.T) {
	without := newGraphReplica(t, llama.NoGraphs, host.Config{}, kvBlocks)
	want := decoding(1, 0, 1, 2, 3)
	runAlone(t, without.engine, want)
	var kernels atomic.Int64 // until one fails; 0: none does
	r := newGraphReplica(t, llama.AllGraphs, host.Config{Inject: func(op string) error {
		if kernels.Load() > 0 && kernels.Add(-1) == 0 {
			return errors.New("a fault of the test")
		}
		return nil
	}}, kvBlocks)
	free, _ := r.device.Memory()
	check := func(what string) {
		t.Helper()
		if got, err := engine.CaptureGraphs(t.Context(), r.engine); err == nil || got != (engine.Graphs{}) {
			t.Fatalf("%s: captured %+v, %v", what, got, err)
		}
		if now, _ := r.device.Memory(); r.spy.open != 0 || now != free {
			t.Errorf("%s: %d graphs and %d bytes are left", what, r.spy.open, free-now)
		}
		g, launched := decoding(1, 0, 1, 2, 3), r.spy.replayed
		runAlone(t, r.engine, g)
		sameTokens(t, what, g.tokens, want.tokens)
		if r.spy.replayed != launched {
			t.Errorf("%s: a graph was launched", what)
		}
	}
	for failing := range 10 {
		r.spy.captured = 0
		r.spy.refuse = func(capture int) error {
			if capture == failing {
				return errors.New("refused")
			}
			return nil
		}
		check("refused")
	}
	r.spy.refuse, r.spy.captured = nil, 0
	for _, n := range []int64{1, 100, 700} {
		kernels.Store(n)
		check("fault")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := engine.CaptureGraphs(ended, r.engine); !errors.Is(err, context.Canceled) || r.spy.open != 0 {
		t.Errorf("a cancelled capture: %v, %d graphs", err, r.spy.open)
	}
	r.capture(t)
	g := decoding(1, 0, 1, 2, 3)
	runAlone(t, r.engine, g)
	sameTokens(t, "after failures", g.tokens, want.tokens)
	if r.spy.open != 10 || r.spy.replayed != 39 {
		t.Errorf("after failures: %d graphs, %d launched", r.spy.open, r.spy.replayed)
	}
	if err := r.engine.Close(); err != nil || r.spy.open != 0 {
		t.Errorf("%d graphs of a closed engine: %v", r.spy.open, err)
	}
}

// passed is a gate whose blocks are there already.
type passed struct{ layers int }

func (p *passed) Pass(_ context.Context, layer int) (cuda.Event, int, error) {
	p.layers++
	return nil, layer + 1, nil
}

// TestGraphsPassNoGate checks that a decode step that waits for blocks runs without a graph.
func TestGraphsPassNoGate(t *testing.T) {
	r := newGraphReplica(t, llama.AllGraphs, host.Config{}, kvBlocks)
	r.capture(t)
	g, gate := decoding(1, 0, 1, 2, 3), &passed{}
	r.step(t, g)
	s := g.next(1)
	s.Gate = gate
	if _, err := r.engine.Step(t.Context(), []engine.Sequence{s}); err != nil {
		t.Fatal(err)
	}
	if r.spy.replayed != 0 || gate.layers == 0 {
		t.Errorf("%d graphs launched, %d layers of the gate passed", r.spy.replayed, gate.layers)
	}
}
