package batch

import (
	"fmt"
	"slices"
)

// PreemptBeyond preempts the running sequences that have blocks at index end or beyond, so that
// those blocks can be freed. Held sequences and reservations keep theirs. Like Plan, it must not be
// called while a step is in flight.
func (s *Scheduler) PreemptBeyond(end int) []Preemption {
	p := &planning{Scheduler: s}
	for _, seq := range slices.Clone(s.running) {
		if slices.ContainsFunc(seq.table, func(b int32) bool { return int(b) >= end }) {
			p.preempt(seq, fmt.Sprintf("KV cache shrinks to %d blocks", end))
		}
	}
	return p.step.Preempted
}
