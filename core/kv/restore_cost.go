package kv

import (
	"fmt"
	"time"
)

// Path is the path over which blocks are restored from a tier.
type Path struct {
	Name        string        // of the tier, such as "dram"
	Rate        Rate          // bytes per second
	Queued      int64         // bytes to be copied before
	Latency     time.Duration // before the first byte
	ProbeBlocks int           // blocks restored to measure an unmeasured path; 0 means 1
	// Parts is the number of runs of layers in which all blocks of the path are restored, so that
	// prefill can follow each run. 0 or 1: the blocks are restored one after the other, each as a
	// whole.
	Parts int
}

// RestoreCost is the input for deciding whether to restore blocks from lower tiers or to recompute
// them.
type RestoreCost struct {
	// Sources has, for each block that HBM lacks and a lower tier has, the index of its tier in
	// Paths.
	Sources     []int
	Paths       []Path
	BlockBytes  int64
	BlockTokens int
	Tokens      int // to prefill if nothing is restored, including those of the blocks
	// StepTokens is the maximum number of tokens per step; 0 means no limit. Only the first step can overlap with
	// the restore.
	StepTokens int
	Prefill    Rate // tokens per second
}

// RestoreDecision is the result of Decide.
type RestoreDecision struct {
	Blocks    int           // leading blocks of Sources to restore
	Duration  time.Duration // until the prompt is computed
	Recompute time.Duration // the same without restoring
	Why       string
}

// Decide selects the number of blocks that minimizes the time until the prompt is computed; of
// equals, the smallest. An unmeasured path is tried with a few blocks, since nothing else would
// measure it. Without a measured prefill rate all blocks are restored.
func (q RestoreCost) Decide() RestoreDecision {
	recompute, known := q.Prefill.Time(float64(q.Tokens))
	if len(q.Sources) == 0 {
		return RestoreDecision{Duration: seconds(recompute), Recompute: seconds(recompute),
			Why: "no lower tier has the next block"}
	}
	if !known {
		return RestoreDecision{Blocks: len(q.Sources), Why: "prefill rate not measured yet"}
	}
	best := RestoreDecision{Duration: seconds(recompute), Recompute: seconds(recompute)}
	bytes := make([]int64, len(q.Paths)) // to restore, by path
	for n, source := range q.Sources {
		if bytes[source] == 0 {
			bytes[source] = q.Paths[source].Queued
		}
		bytes[source] += q.BlockBytes
		copying, latency, parts, measured := q.copyTime(bytes)
		if !measured {
			best.Blocks, best.Why = q.probeBlocks(n), "path from "+q.Paths[source].Name+" not measured yet"
			return best
		}
		if takes := seconds(latency + q.totalTime(copying, parts,
			q.Tokens-(n+1)*q.BlockTokens)); takes < best.Duration {
			best.Blocks, best.Duration = n+1, takes
		}
	}
	best.Why = fmt.Sprintf("restoring %d of %d blocks takes %v, recomputing all %d tokens %v",
		best.Blocks, len(q.Sources), best.Duration.Round(time.Microsecond), q.Tokens,
		best.Recompute.Round(time.Microsecond))
	return best
}

// probeBlocks returns how many blocks are restored if the path of block n was never measured: the
// blocks before n and the path's ProbeBlocks.
func (q RestoreCost) probeBlocks(n int) int {
	end := n + max(q.Paths[q.Sources[n]].ProbeBlocks, 1)
	for i := n; i < min(end, len(q.Sources)); i++ {
		if q.Sources[i] != q.Sources[n] {
			return i
		}
	}
	return min(end, len(q.Sources))
}

// copyTime returns the copy time of the slowest path, the largest latency and the smallest number
// of parts. The paths copy in parallel. It reports false if a path was never measured.
func (q RestoreCost) copyTime(bytes []int64) (slowest, latency float64, parts int, measured bool) {
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

// totalTime returns the seconds that restore and prefill take together. The first step overlaps
// with the parts of the restore, and the other steps follow it.
func (q RestoreCost) totalTime(copying float64, parts, tokens int) float64 {
	first := tokens
	if q.StepTokens > 0 {
		first = min(tokens, q.StepTokens)
	}
	step, _ := q.Prefill.Time(float64(first))
	rest, _ := q.Prefill.Time(float64(tokens - first))
	return pipelined(copying, step, parts) + rest
}

// pipelined returns the duration of two passes over the same parts if the second pass follows the
// first by one part.
func pipelined(first, second float64, parts int) float64 {
	n := float64(parts)
	return first/n + second/n + (n-1)*max(first, second)/n
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
