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
)

// TestGoldensOnCUDASources: the engine on the CUDA sources, as the CPU runs them, with weights as a GPU keeps them, in 16 bits,
// and in F32. A few tokens of each output, for it is slow.
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
		e := openOn(t, kernelhost.Device(library, device, weights), testkit.Model(), tables(rand.New(rand.NewPCG(1, 2)), gs))
		for i, g := range gs {
			alone(t, e, g)
			if want := wants[i].OutputIDs[:g.want]; !slices.Equal(g.output, want) {
				t.Errorf("%v, %q: got %v, want %v", weights, wants[i].Prompt, g.output, want)
			}
		}
	}
}
