package cost

import (
	"math"
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
	Rate           float64       // per second; 0: unknown
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

// LeastCapacity returns the least Capacity of the replicas of a model, in a pool of as many as the rate of
// requests needs. It is 0 if there are none, if the costs of one are unknown, or if there were too few requests
// to know their lengths.
func LeastCapacity(q Requests, all []Replica) float64 {
	if min(q.Prompt.Count, q.Output.Count) < leastFinished {
		return 0
	}
	least := math.Inf(1)
	for i, r := range all {
		if !r.Known {
			return 0
		}
		if slices.Contains(all[:i], r) { // it has the same capacity
			continue
		}
		least = min(least, r.Steps.pooled(Load{
			Prompt: q.Prompt.Mean, LongPrompt: q.Prompt.P99, Cached: q.cached(), Output: q.Output.Mean,
			TTFT: q.TTFT, TPOT: q.TPOT, Places: r.Places, StepTokens: r.StepTokens, KVTokens: r.KVTokens,
		}, q.Rate))
	}
	if math.IsInf(least, 1) {
		return 0
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
