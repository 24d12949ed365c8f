package llama_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit"
)

const kvBlocks = 16

// testReplica is the model's weights on their own device, with an engine and a BlockCopier.
type testReplica struct {
	device cuda.Device
	store  *residency.Store
	engine engine.Engine
	blocks *residency.BlockCopier
}

func newReplica(t testing.TB) *testReplica {
	t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return newReplicaOn(t, device)
}

func newReplicaOn(t testing.TB, device cuda.Device) *testReplica {
	t.Helper()
	return newReplicaWith(t, device, llama.Loader{}, kvBlocks)
}

func newReplicaWith(t testing.TB, device cuda.Device, loader llama.Loader, blocks int) *testReplica {
	t.Helper()
	return newReplicaWithin(t, device, loader, blocks, limits)
}

func newReplicaWithin(
	t testing.TB, device cuda.Device, loader llama.Loader, blocks int, limits engine.Limits,
) *testReplica {
	t.Helper()
	r := &testReplica{device: device, store: residency.NewStore(device, loader)}
	load := engine.LoadSpec{
		Lease: "m", Path: testkit.Model(), BlockTokens: blockTokens, KVBlocks: blocks, Limits: limits,
	}
	var err error
	if _, err = r.store.Load(context.Background(), load); err != nil {
		t.Fatal(err)
	}
	if r.engine, err = r.store.Open("m"); err != nil {
		t.Fatal(err)
	}
	if r.blocks, err = r.store.OpenBlocks("m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = r.blocks.Close(), r.engine.Close()
		if _, err := r.store.Unload("m"); err != nil {
			t.Error(err)
		}
		if free, total := device.Memory(); free != total {
			t.Errorf("%d bytes of device memory are left behind", total-free)
		}
		_ = device.Close()
	})
	return r
}

// step runs the next step of a generation.
func (r *testReplica) step(t testing.TB, g *generation) {
	t.Helper()
	s := g.next(limits.StepTokens)
	tokens, err := r.engine.Step(t.Context(), []engine.Sequence{s})
	if err != nil {
		t.Fatal(err)
	}
	g.advance(s, tokens)
}

// TestMovedSequenceContinuesBitIdentical moves a sequence to another device after each of its
// tokens. The copied blocks have other numbers there, and the remaining output is bit-identical.
// Full blocks are copied while the source steps.
func TestMovedSequenceContinuesBitIdentical(t *testing.T) {
	a, b := newReplica(t), newReplica(t)
	if a.blocks.Layout() != b.blocks.Layout() || a.blocks.Layout() == "" {
		t.Fatalf("layouts %q and %q", a.blocks.Layout(), b.blocks.Layout())
	}
	fresh := func() *generation {
		g := &generation{
			want: 24, // so that a move occurs at each place of a block
			params: sample.Params{
				Temperature: 0.9, TopP: 0.95, Seed: 7, RepetitionPenalty: 1.2, Logprobs: true, TopLogprobs: 5,
			},
		}
		for i := range 27 {
			g.prompt = append(g.prompt, uint32(3+i*31))
		}
		g.blocks = []int32{3, 9, 1, 14, 0}
		return g
	}
	whole := fresh()
	runAlone(t, a.engine, whole)
	buf := make([]byte, a.blocks.BlockBytes())
	for at := 1; at < whole.want; at++ {
		g := fresh()
		for len(g.output) < at {
			a.step(t, g)
		}
		there := []int32{7, 2, 15, 5, 11}
		full := g.computed / blockTokens
		copied := make(chan error, 1)
		go func() { copied <- move(t.Context(), a.blocks, b.blocks, g.blocks[:full], there) }()
		a.step(t, g)
		if err := <-copied; err != nil {
			t.Fatal(err)
		}
		last := (g.computed + blockTokens - 1) / blockTokens
		if err := move(t.Context(), a.blocks, b.blocks, g.blocks[full:last], there[full:]); err != nil {
			t.Fatal(err)
		}
		for i := range buf { // the target does not depend on later writes at the source
			buf[i] = 0xff
		}
		for _, block := range g.blocks {
			if err := a.blocks.Write(t.Context(), block, buf); err != nil {
				t.Fatal(err)
			}
		}
		g.blocks = there
		for !g.done() {
			b.step(t, g)
		}
		for i := range g.tokens {
			if w := whole.tokens[i]; g.tokens[i].ID != w.ID || g.tokens[i].Logprob != w.Logprob ||
				!slices.Equal(g.tokens[i].Top, w.Top) {
				t.Fatalf("moved after token %d: token %d is %v, want %v", at, i, g.tokens[i], w)
			}
		}
	}
}

// TestOutputIndependentOfKVSize checks that the output of a sequence does not depend on the size of
// the KV memory.
func TestOutputIndependentOfKVSize(t *testing.T) {
	r := newReplica(t)
	if _, err := cuda.As[cuda.VirtualMemory](r.device); err != nil {
		t.Skip(err)
	}
	fresh := func(blocks ...int32) *generation {
		return &generation{
			prompt: []uint32{3, 34, 65, 96, 127}, want: 60, blocks: blocks,
			params: sample.Params{Temperature: 0.8, Seed: 11},
		}
	}
	want, got := fresh(0, 1, 2, 3, 4, 5), fresh(0, 1, 2, 3, 4, 5)
	runAlone(t, r.engine, want)
	for i := 0; !got.done(); i++ {
		if _, err := r.store.Resize("m", []int{6, 64, 9, 300}[i%4]); err != nil {
			t.Fatal(err)
		}
		r.step(t, got)
	}
	if !slices.Equal(got.output, want.output) {
		t.Errorf("got %v, want %v", got.output, want.output)
	}
	if _, err := r.store.Resize("m", 6); err != nil {
		t.Fatal(err)
	}
	s := fresh(6, 7).next(limits.StepTokens)
	if _, err := r.engine.Step(t.Context(), []engine.Sequence{s}); err == nil {
		t.Error("a removed block was used")
	}
}

// move copies blocks to the given block numbers of another arena.
func move(ctx context.Context, from, to *residency.BlockCopier, blocks, there []int32) error {
	buf := make([]byte, from.BlockBytes())
	for i, block := range blocks {
		if err := from.Read(ctx, block, buf); err != nil {
			return err
		}
		if err := to.Write(ctx, there[i], buf); err != nil {
			return err
		}
	}
	return nil
}

func TestBlockCopierRefuses(t *testing.T) {
	r := newReplica(t)
	good := make([]byte, r.blocks.BlockBytes())
	for _, tc := range []struct {
		block int32
		bytes []byte
	}{{-1, good}, {kvBlocks, good}, {0, good[1:]}, {0, nil}} {
		if r.blocks.Read(t.Context(), tc.block, tc.bytes) == nil ||
			r.blocks.Write(t.Context(), tc.block, tc.bytes) == nil {
			t.Errorf("block %d with %d bytes were copied", tc.block, len(tc.bytes))
		}
	}
	if err := r.engine.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Unload("m"); err == nil {
		t.Error("a lease was unloaded while a BlockCopier was open")
	}
	if err := r.blocks.Close(); err != nil {
		t.Fatal(err)
	}
	if r.blocks.Read(t.Context(), 0, good) == nil {
		t.Error("a closed BlockCopier read a block")
	}
	if _, err := r.store.OpenBlocks("other"); err == nil {
		t.Error("blocks of an unknown lease were opened")
	}
}

// BenchmarkBlockCopy measures the copy of one block. Compare with a decode step,
// BenchmarkStep/decode_1.
func BenchmarkBlockCopy(b *testing.B) {
	r := newReplica(b)
	buf := make([]byte, r.blocks.BlockBytes())
	for name, do := range map[string]func(context.Context, int32, []byte) error{
		"read": r.blocks.Read, "write": r.blocks.Write,
	} {
		b.Run(fmt.Sprint(name, " of ", len(buf), " bytes"), func(b *testing.B) {
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				if err := do(b.Context(), 1, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
