package planner

import "time"

// Counts are what has happened in a term.
type Counts struct {
	Plans, Changed, Conflicts, Failed uint64
}

// Status is what a planner has done while it leads.
type Status struct {
	Term    uint64    // 0: another node leads
	Since   time.Time // when it began to lead
	Counts  Counts
	Last    *Record   // the last plan; nil: none yet
	History []*Record // the last plans that changed something, the newest last
}

// Status returns what has been done. The records must not be changed.
func (m *Machine) Status() Status {
	return Status{Term: m.term, Since: m.since, Counts: m.counts, Last: m.last, History: m.history}
}

// Find returns a plan by its number, or the last one for 0; nil: it is not kept.
func (s Status) Find(number uint64) *Record {
	if number == 0 || s.Last != nil && s.Last.Number == number {
		return s.Last
	}
	for _, r := range s.History {
		if r.Number == number {
			return r
		}
	}
	return nil
}
