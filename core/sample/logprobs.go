package sample

import (
	"math"
	"slices"
)

// logprobs returns the log-probability of the chosen token and those of the n likeliest tokens,
// according to the unmodified logits. It never returns NaN: a token without a probability has -Inf.
func logprobs(logits []float32, chosen uint32, n int) (float32, []Logprob) {
	top := logits[argmax(logits)]
	var total float64
	for _, v := range logits {
		total += math.Exp(-belowTop(v, top))
	}
	norm := math.Log(max(total, 1)) // the largest logit adds 1, if there is one
	ids := largest(logits, n)
	best := make([]Logprob, len(ids))
	for i, id := range ids {
		best[i] = Logprob{id, float32(-belowTop(logits[id], top) - norm)}
	}
	return float32(-belowTop(logits[chosen], top) - norm), best
}

// largest returns the IDs of the n largest logits, in order; on a tie, the lowest ID first. It
// leaves out NaN.
func largest(logits []float32, n int) []uint32 {
	ids := make([]uint32, 0, min(n, len(logits))+1)
	for i, v := range logits {
		if n == 0 || v != v || len(ids) == n && v <= logits[ids[n-1]] {
			continue
		}
		at, _ := slices.BinarySearchFunc(ids, v, func(id uint32, v float32) int {
			if logits[id] >= v {
				return -1
			}
			return 1
		})
		ids = slices.Insert(ids, at, uint32(i))
		ids = ids[:min(n, len(ids))]
	}
	return ids
}
