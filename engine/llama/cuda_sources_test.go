package llama_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/testkit"
	"troupe/testkit/kernelhost"
	"troupe/testkit/reference"
)

// TestQwen3OnCUDASources compares the norms of q and k in the CUDA sources, compiled for the CPU,
// with float64.
func TestQwen3OnCUDASources(t *testing.T) {
	library := kernelhost.Load(t)
	for i, s := range []reference.Shape{
		{Architecture: "Qwen3ForCausalLM", DType: "BF16", Hidden: 32, Heads: 4, KVHeads: 2, HeadDim: 16, Tied: true},
		{Architecture: "Qwen3ForCausalLM", DType: "F32", Hidden: 24, Heads: 2, KVHeads: 1}, // head_dim is 128
	} {
		dir := reference.Random(t, s, uint64(i))
		want := reference.Load(t, dir)
		compared := 0
		for seed := range uint64(6) {
			r := rand.New(rand.NewPCG(seed, 3))
			g := &generation{want: 6}
			for range 18 {
				g.prompt = append(g.prompt, uint32(r.IntN(64)))
			}
			output, margin := want.Greedy(g.prompt, g.want)
			if margin < 1e-3 {
				continue
			}
			compared++
			device, err := host.Open(host.Config{MemoryBytes: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			e := openOn(t, kernelhost.Device(library, device, cuda.BF16), dir, assignBlocks(r, []*generation{g}))
			runAlone(t, e, g)
			if !slices.Equal(g.output, output) {
				t.Errorf("%s, prompt %v: got %v, want %v", s.DType, g.prompt, g.output, output)
			}
			if compared == 2 {
				break
			}
		}
		if compared == 0 {
			t.Errorf("%s: no output had enough margin to compare", s.DType)
		}
	}
}

// TestGoldensOnCUDASources runs the engine on the CUDA sources, compiled for the CPU, with weights
// in 16 bits, as on a GPU, and in F32. It is slow, so it checks only a few tokens of each output.
func TestGoldensOnCUDASources(t *testing.T) {
	const outputs, tokens = 2, 4
	library := kernelhost.Load(t)
	wants := testkit.JSONLines[testkit.Golden](t, filepath.Join(testkit.Model(), "golden_greedy.jsonl"))[:outputs]
	for _, weights := range []cuda.DType{cuda.BF16, cuda.F32} {
		device, err := host.Open(host.Config{MemoryBytes: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		var gs []*generation
		for _, g := range wants {
			gs = append(gs, &generation{prompt: g.PromptIDs, want: min(tokens, len(g.OutputIDs))})
		}
		e := openOn(
			t, kernelhost.Device(library, device, weights), testkit.Model(),
			assignBlocks(rand.New(rand.NewPCG(1, 2)), gs),
		)
		for i, g := range gs {
			runAlone(t, e, g)
			if want := wants[i].OutputIDs[:g.want]; !slices.Equal(g.output, want) {
				t.Errorf("%v, %q: got %v, want %v", weights, wants[i].Prompt, g.output, want)
			}
		}
	}
}
