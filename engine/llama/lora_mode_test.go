package llama_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/core/lora"
	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/kernels"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit"
	"troupe/testkit/adapters"
)

// launches counts the launches of LoRAShrink and their rows.
type launches struct {
	cuda.Device
	shrinks, rows int
}

type countingStream struct {
	cuda.Stream
	count *launches
}

func (l *launches) NewStream(name string) (cuda.Stream, error) {
	s, err := l.Device.NewStream(name)
	return countingStream{s, l}, err
}

func (s countingStream) Launch(op cuda.Op) error {
	if op, ok := op.(kernels.LoRAShrink); ok {
		s.count.shrinks++
		s.count.rows += int(op.N)
	}
	return s.Stream.Launch(op)
}

// mixedAdapters returns adapters of several ranks. Some have only a part of the layers or
// projections.
func mixedAdapters() []engine.AdapterFile {
	return []engine.AdapterFile{
		adapters.Random(adapters.KJV, 16, 1, adapters.Everywhere),
		adapters.Random(adapters.KJV, 3, 2, adapters.Everywhere),
		adapters.Random(adapters.KJV, 8, 3, func(layer int, _ lora.Target) bool { return layer%2 == 1 }),
		adapters.Random(adapters.KJV, 1, 4, func(_ int, t lora.Target) bool { return t == lora.Q || t == lora.Down }),
	}
}

// TestLoRAModesAgree checks that all modes give bit-identical tokens and log-probabilities for
// steps that mix adapters, ranks and layers. Adapters change the output, and the modes differ in
// their launches.
func TestLoRAModesAgree(t *testing.T) {
	var want [][]sample.Token
	var counted []launches
	for _, mode := range []llama.LoRAMode{llama.Batched, llama.Grouped, llama.Naive} {
		r := rand.New(rand.NewPCG(7, 8))
		gs := samePrompts(r)
		device, err := host.Open(host.Config{MemoryBytes: 256 << 20})
		if err != nil {
			t.Fatal(err)
		}
		count := &launches{Device: device}
		e := openWith(t, count, llama.Loader{Adapters: mode}, testkit.Model(), assignBlocks(r, gs))
		arena := newArena(t, device, testkit.Model())
		loaded := []*engine.Adapter{nil}
		for _, file := range mixedAdapters() {
			loaded = append(loaded, arena.put(t, file))
		}
		for i, g := range gs {
			g.adapter = loaded[i/2%len(loaded)]
		}
		for slices.ContainsFunc(gs, func(g *generation) bool { return !g.done() }) {
			stepRandomBatch(t, e, r, gs)
		}
		counted = append(counted, *count)
		if want == nil {
			for _, g := range gs {
				want = append(want, g.tokens)
			}
			if slices.Equal(gs[0].output, gs[2].output) {
				t.Error("an adapter changes nothing")
			}
			continue
		}
		for i, g := range gs {
			for j, got := range g.tokens {
				if got.ID != want[i][j].ID || got.Logprob != want[i][j].Logprob {
					t.Fatalf("%s, sequence %d, token %d: %v, batched %v", mode, i, j, got, want[i][j])
				}
			}
		}
	}
	b, g, n := counted[0], counted[1], counted[2]
	if b.shrinks >= g.shrinks || g.shrinks >= n.shrinks || g.rows != n.rows || b.rows <= g.rows {
		t.Errorf(
			"batched %d launches of %d rows, grouped %d of %d, naive %d of %d", b.shrinks, b.rows, g.shrinks, g.rows,
			n.shrinks, n.rows,
		)
	}
}

// samePrompts returns sequences with the same prompt.
func samePrompts(r *rand.Rand) (gs []*generation) {
	var prompt []uint32
	for range 20 {
		prompt = append(prompt, uint32(3+r.IntN(1000)))
	}
	for range 10 {
		gs = append(gs, &generation{prompt: prompt, want: 8, params: sample.Params{Logprobs: true}})
	}
	return gs
}
