package workload

import (
	"math"
	"slices"
	"time"
)

// Statistics describe a source.
type Statistics struct {
	Requests int
	Span     time.Duration  // from the first to the last arrival
	CV       float64        // of the gaps; NaN with fewer than two gaps
	Models   map[string]int // requests by model
	Adapters map[string]int // requests by adapter; "" is the base model
	Reused   float64        // share of the hashes in prefixes that an earlier prompt began with; NaN without hashes

	prompts, outputs []int // in order
}

// Measure reads a source to its end.
func Measure(from Source) (Statistics, error) {
	s := Statistics{Models: map[string]int{}, Adapters: map[string]int{}}
	var first, last time.Duration
	var sum, squares float64
	hashes, reused, seen := 0, 0, map[uint64]bool{}
	for r, err := range from {
		if err != nil {
			return Statistics{}, err
		}
		if s.Requests == 0 {
			first = r.At
		} else {
			gap := (r.At - last).Seconds()
			sum, squares = sum+gap, squares+gap*gap
		}
		last = r.At
		s.Requests++
		s.Models[r.Model]++
		s.Adapters[r.Adapter]++
		s.prompts, s.outputs = append(s.prompts, r.Prompt), append(s.outputs, r.Output)
		leading := true
		for _, h := range r.Prefix {
			hashes++
			if leading = leading && seen[h]; leading {
				reused++
			}
			seen[h] = true
		}
	}
	s.Span = last - first
	mean := sum / float64(s.Requests-1)
	s.CV = math.Sqrt(max(0, squares/float64(s.Requests-1)-mean*mean)) / mean
	s.Reused = float64(reused) / float64(hashes)
	slices.Sort(s.prompts)
	slices.Sort(s.outputs)
	return s, nil
}

// Rate returns the arrivals per second: the inverse of the mean gap. It is NaN with fewer than two requests.
func (s Statistics) Rate() float64 { return float64(s.Requests-1) / s.Span.Seconds() }

// Prompt returns a quantile of the prompts' lengths by nearest rank.
func (s Statistics) Prompt(share float64) int { return quantile(s.prompts, share) }

// Output returns a quantile of the outputs' lengths by nearest rank.
func (s Statistics) Output(share float64) int { return quantile(s.outputs, share) }

// quantile returns 0 if there are no lengths.
func quantile(sorted []int, share float64) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(share*float64(len(sorted))))-1))]
}

// Share returns the share of the n most frequent of counted names.
func Share(counts map[string]int, n int) float64 {
	all, sum, top := make([]int, 0, len(counts)), 0, 0
	for _, c := range counts {
		all, sum = append(all, c), sum+c
	}
	slices.Sort(all)
	for _, c := range all[max(0, len(all)-n):] {
		top += c
	}
	return float64(top) / float64(sum)
}
