package cost

import (
	"slices"
	"time"
)

// leastFinished is the number of requests from which the lengths of prompts and outputs are known.
const leastFinished = 20

// Lengths has the numbers of tokens of recent prompts, or of recent outputs.
type Lengths struct {
	Count     uint64
	Mean, P99 float64
}

// Requests has what is known of the requests for a model.
type Requests struct {
	Prompt, Output Lengths
	TTFT, TPOT     time.Duration // as in Load
	// Computed and Cached are the tokens of prompts that replicas computed, and those that they
	// found in their KV cache.
	Computed, Cached uint64
}

// Replica is a replica that serves requests.
type Replica struct {
	Steps              Steps
	Known              bool // the costs of its steps are known
	Places, StepTokens int
	KVTokens           float64
}

// LeastCapacities returns the Capacities of a model's replicas, as if all were like the one that serves least. It is
// nil if there are none, if the costs of one are unknown, if there were too few requests to know their lengths, or if
// the SLO is missed at any rate.
func LeastCapacities(q Requests, all []Replica, most int) (least []float64) {
	if min(q.Prompt.Count, q.Output.Count) < leastFinished {
		return nil
	}
	for i, r := range all {
		if !r.Known {
			return nil
		}
		if slices.Contains(all[:i], r) { // it has the same ones
			continue
		}
		own := r.Steps.Capacities(Load{
			Prompt: q.Prompt.Mean, LongPrompt: q.Prompt.P99, Cached: q.cached(), Output: q.Output.Mean,
			LongOutput: q.Output.P99, TTFT: q.TTFT, TPOT: q.TPOT, Places: r.Places, StepTokens: r.StepTokens,
			KVTokens: r.KVTokens,
		}, most)
		for n := range own {
			if i > 0 {
				own[n] = min(own[n], least[n])
			}
		}
		least = own
	}
	if slices.Contains(least, 0) {
		return nil
	}
	return least
}

// cached returns the share of the tokens of prompts that was found in KV caches.
func (q Requests) cached() float64 {
	if q.Cached == 0 {
		return 0
	}
	return float64(q.Cached) / float64(q.Computed+q.Cached)
}
