package kv

import (
	"fmt"
	"time"
)

// DefaultPartBytes is the default of the least size of a part. Disks and devices copy parts of this size nearly as
// fast as entire blocks.
const DefaultPartBytes = 256 << 10

// GateTimeout is the maximum time that one step waits for parts of copies in total. All other sequences in the step
// wait too.
const GateTimeout = 20 * time.Millisecond

// Parts returns the number of parts in which a block is restored: runs of layers of at least
// partBytes.
func Parts(blockBytes, layers, partBytes int) int {
	layers = max(layers, 1)
	most := min(max(blockBytes/max(partBytes, 1), 1), layers)
	each := (layers + most - 1) / most
	return (layers + each - 1) / each
}

// OverlapEstimate is the input for deciding whether a sequence's prefill starts while its blocks
// are still being restored. The blocks are restored in parts, each part being a run of layers.
type OverlapEstimate struct {
	Parts      int           // number of parts, of equal size
	Arrived    int           // leading parts that have arrived
	FirstAfter time.Duration // until the first part arrived
	Elapsed    time.Duration // until the last arrived part
	Tokens     int           // that the first step computes for the sequence
	Prefill    Rate          // tokens per second
}

// OverlapDecision is the result of Decide.
type OverlapDecision struct {
	Start     bool
	Remaining time.Duration // until the last part arrives
	Why       string
}

// Decide starts the prefill as soon as no layer of its step has to wait for its part. The other
// sequences in the step then lose nothing. The step also ends as early as if it had started
// together with the restore and waited. Without a measured prefill rate it waits for all parts.
func (q OverlapEstimate) Decide() OverlapDecision {
	compute, known := q.Prefill.Time(float64(q.Tokens))
	switch {
	case q.Arrived >= q.Parts:
		return OverlapDecision{Start: true, Why: "all parts have arrived"}
	case q.Arrived == 0:
		return OverlapDecision{Why: "no part has arrived yet"}
	}
	perPart := q.secondsPerPart()
	d := OverlapDecision{Remaining: seconds(float64(q.Parts-q.Arrived) * perPart)}
	if !known {
		d.Why = "prefill rate not measured yet"
		return d
	}
	// Part p arrives after (p-Arrived+1)*perPart, and the step reads it after p/Parts of its
	// compute time. Both are linear in p: if neither the first nor the last part is late, none is.
	late := func(part int) float64 {
		return float64(part-q.Arrived+1)*perPart - float64(part)/float64(q.Parts)*compute
	}
	d.Start = late(q.Arrived) <= 0 && late(q.Parts-1) <= 0
	d.Why = fmt.Sprintf("%d of %d parts arrive within %v, and the step takes %v",
		q.Parts-q.Arrived, q.Parts, d.Remaining.Round(time.Microsecond), seconds(compute).Round(time.Microsecond))
	return d
}

// secondsPerPart returns the time between two parts. The first part includes the latency of the
// path, so its time counts only if it is the only one.
func (q OverlapEstimate) secondsPerPart() float64 {
	if q.Arrived == 1 {
		return q.Elapsed.Seconds()
	}
	return (q.Elapsed - q.FirstAfter).Seconds() / float64(q.Arrived-1)
}
