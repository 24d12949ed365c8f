package kv

import (
	"fmt"
	"time"
)

// Path is the way up from a tier.
type Path struct {
	Name    string        // of the tier: "dram"
	Rate    Rate          // bytes a second
	Queued  int64         // bytes that are to be copied before
	Latency time.Duration // before the first byte
	Try     int           // blocks that it is tried with while it was never measured; 0: one
	Parts   int           // runs of layers in which all of its blocks come up, so that prefill may follow; 0 or 1: whole, one after the other
}

// RestoreQuestion asks whether blocks are restored from lower tiers, or computed again.
type RestoreQuestion struct {
	Sources     []int // for each block that is not in HBM and that a lower tier has, in order: the index of its tier in Paths
	Paths       []Path
	BlockBytes  int64
	BlockTokens int
	Tokens      int  // to prefill if nothing is restored, those of the blocks included
	StepTokens  int  // of those that a step computes at the most, which alone can overlap with a restore; 0: all
	Prefill     Rate // tokens a second
}

// RestoreChoice is the answer.
type RestoreChoice struct {
	Blocks    int           // of Sources, from the first, are restored; 0: none
	Takes     time.Duration // until the prompt is computed
	Recompute time.Duration // what it would take without restoring anything
	Why       string
}

// Choose takes the number of blocks that has the prompt computed first; of equals, the fewest. A path that was never measured is tried with
// few blocks, since nothing is known of it otherwise; so is everything while no prefill was measured.
func (q RestoreQuestion) Choose() RestoreChoice {
	recompute, known := q.Prefill.Time(float64(q.Tokens))
	if len(q.Sources) == 0 {
		return RestoreChoice{Takes: seconds(recompute), Recompute: seconds(recompute), Why: "no lower tier has the next block"}
	}
	if !known {
		return RestoreChoice{Blocks: len(q.Sources), Why: "no prefill was measured yet"}
	}
	best := RestoreChoice{Takes: seconds(recompute), Recompute: seconds(recompute)}
	bytes := make([]int64, len(q.Paths)) // to restore by path
	for n, source := range q.Sources {
		if bytes[source] == 0 {
			bytes[source] = q.Paths[source].Queued
		}
		bytes[source] += q.BlockBytes
		copying, latency, parts, measured := q.copying(bytes)
		if !measured {
			best.Blocks, best.Why = q.try(n), "the path from "+q.Paths[source].Name+" was not measured yet"
			return best
		}
		if takes := seconds(latency + q.after(copying, parts, q.Tokens-(n+1)*q.BlockTokens)); takes < best.Takes {
			best.Blocks, best.Takes = n+1, takes
		}
	}
	best.Why = fmt.Sprintf("restoring %d of %d blocks takes %v, recomputing all %d tokens %v",
		best.Blocks, len(q.Sources), best.Takes.Round(time.Microsecond), q.Tokens, best.Recompute.Round(time.Microsecond))
	return best
}

// try is how many blocks are restored where the path of block n was never measured: those before it, and as many as it is tried with.
func (q RestoreQuestion) try(n int) int {
	end := n + max(q.Paths[q.Sources[n]].Try, 1)
	for i := n; i < min(end, len(q.Sources)); i++ {
		if q.Sources[i] != q.Sources[n] {
			return i
		}
	}
	return min(end, len(q.Sources))
}

// copying is how long the slowest path copies, and how long it takes until all of them have begun; they work side by side. What they bring comes in as many
// parts as that of each.
func (q RestoreQuestion) copying(bytes []int64) (slowest, latency float64, parts int, measured bool) {
	for i, b := range bytes {
		if b == 0 {
			continue
		}
		t, ok := q.Paths[i].Rate.Time(float64(b))
		if !ok {
			return 0, 0, 0, false
		}
		slowest, latency = max(slowest, t), max(latency, q.Paths[i].Latency.Seconds())
		if parts == 0 || q.Paths[i].Parts < parts {
			parts = max(q.Paths[i].Parts, 1)
		}
	}
	return slowest, latency, parts, true
}

// after is how long restore and prefill take together: the first step's follows the parts, the others come after it.
func (q RestoreQuestion) after(copying float64, parts, tokens int) float64 {
	first := tokens
	if q.StepTokens > 0 {
		first = min(tokens, q.StepTokens)
	}
	step, _ := q.Prefill.Time(float64(first))
	rest, _ := q.Prefill.Time(float64(tokens - first))
	return pipelined(copying, step, parts) + rest
}

// pipelined is how long two passes over some parts take, where the second follows the first by one part.
func pipelined(first, second float64, parts int) float64 {
	n := float64(parts)
	return first/n + second/n + (n-1)*max(first, second)/n
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
