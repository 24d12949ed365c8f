package llama_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/testkit/reference"
)

// TestArchitecturesAgainstReference compares every shape that config.json can declare with a
// float64 reference, on random weights. It compares only outputs whose two likeliest tokens differ
// by more than 1e-3 at every step.
func TestArchitecturesAgainstReference(t *testing.T) {
	const llama, mistral, qwen, qwen3 = "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"
	for i, s := range []reference.Shape{
		{Architecture: llama, DType: "F32", Hidden: 32, Heads: 4, KVHeads: 4},
		{Architecture: llama, DType: "BF16", Hidden: 32, Heads: 4, KVHeads: 2, Tied: true, Llama3Rope: true},
		{Architecture: llama, DType: "F16", Hidden: 24, Heads: 4, KVHeads: 1, HeadDim: 10, Shards: 3},
		{Architecture: mistral, DType: "BF16", Hidden: 32, Heads: 4, KVHeads: 2, Window: 7},
		{Architecture: mistral, DType: "F32", Hidden: 40, Heads: 2, KVHeads: 1, HeadDim: 18},
		{Architecture: qwen, DType: "F16", Hidden: 32, Heads: 4, KVHeads: 2, Tied: true},
		{Architecture: qwen, DType: "F32", Hidden: 28, Heads: 2, KVHeads: 2, Shards: 2},
		{Architecture: qwen3, DType: "F32", Hidden: 32, Heads: 4, KVHeads: 4, HeadDim: 8},
		{Architecture: qwen3, DType: "BF16", Hidden: 24, Heads: 4, KVHeads: 2, HeadDim: 16, Tied: true},
		{Architecture: qwen3, DType: "F16", Hidden: 40, Heads: 6, KVHeads: 1, HeadDim: 10, Shards: 3},
		{Architecture: qwen3, DType: "F32", Hidden: 16, Heads: 2, KVHeads: 1, Tied: true}, // without head_dim: 128
	} {
		t.Run(fmt.Sprintf("%s %s %d", s.Architecture, s.DType, i), func(t *testing.T) {
			dir := reference.Random(t, s, uint64(i))
			want := reference.Load(t, dir)
			r := rand.New(rand.NewPCG(uint64(i), 9))
			compared := 0
			for range 4 {
				g := &generation{want: 12}
				for range 20 + r.IntN(10) {
					g.prompt = append(g.prompt, uint32(r.IntN(64)))
				}
				output, margin := want.Greedy(g.prompt, g.want)
				if margin < 1e-3 {
					continue
				}
				compared++
				e := open(t, dir, assignBlocks(r, []*generation{g}))
				runAlone(t, e, g)
				if !slices.Equal(g.output, output) {
					t.Errorf("%v: got %v, want %v", g.prompt, g.output, output)
				}
			}
			if compared == 0 {
				t.Error("no output had enough margin to compare")
			}
		})
	}
}
