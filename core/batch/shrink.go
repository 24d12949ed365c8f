package batch

import (
	"fmt"
	"slices"
)

// Vacate preempts the running sequences that have blocks from index end on, so that those can be given up. Sequences that are held and
// room that is reserved keep theirs. As Plan, it may be called only while no step is in flight.
func (s *Scheduler) Vacate(end int) []Preemption {
	p := &planning{Scheduler: s}
	for _, seq := range slices.Clone(s.running) {
		if slices.ContainsFunc(seq.table, func(b int32) bool { return int(b) >= end }) {
			p.preempt(seq, fmt.Sprintf("KV blocks from %d on are given up", end))
		}
	}
	return p.step.Preempted
}
