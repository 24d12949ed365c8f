package sample

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkChoose uses the vocabulary size of a large model.
func BenchmarkChoose(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	logits := make([]float32, 128<<10)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 3)
	}
	for _, tc := range []struct {
		name string
		p    Params
	}{
		{"greedy", Params{}},
		{"temperature", Params{Temperature: 1}},
		{"top_k 50", Params{Temperature: 1, TopK: 50}},
		{"top_p 0.9", Params{Temperature: 1, TopP: 0.9}},
		{"logprobs 20", Params{Logprobs: true, TopLogprobs: 20}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Choose(logits, tc.p, nil, nil, 1)
			}
		})
	}
}
