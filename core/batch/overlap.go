package batch

import "slices"

// A sequence can begin while the blocks that it begins with are still being filled, by a restore that is as good as over. It runs like any other, but its
// entries are Arriving until a step with one is done, or the restore is: what those blocks hold is offered to nobody before.

// Begin lets a waiting sequence that is held run on blocks that the caller has references to: those of the hashes that First named, of which so many
// are resident and the others still being filled. The sequence has references of its own. Begin reports false, and does nothing, where there is
// no place or too few blocks, or where another one comes first. As Plan, it may be called only while no step is in flight.
func (s *Scheduler) Begin(id string, table []int32, resident int) bool {
	seq, ok := s.byID[id]
	if !ok || !seq.held || seq.state == Running || len(s.running) >= s.places() {
		return false
	}
	if first := s.next(); first != nil && first.ahead(seq) {
		return false
	}
	size := s.pool.BlockTokens()
	if (len(seq.tokens)+size)/size-len(table) > s.pool.Free() {
		return false
	}
	if seq.Adapter != "" && s.reserveAdapter(seq.Request) != nil {
		s.adapters.unpin(seq.Request)
		return false
	}
	s.pool.Retain(table)
	seq.table, seq.computed, seq.committed = slices.Clone(table), len(table)*size, resident
	if len(table) > (len(seq.tokens)-1)/size { // the last one is partial
		seq.computed = seq.parked
	}
	seq.held, seq.arriving, seq.state = false, true, Running
	insert(&s.running, seq)
	return true
}

// Land says that the blocks are filled which a sequence has begun on. It does nothing where it has not, or a step with it was done.
func (s *Scheduler) Land(id string) {
	if seq, ok := s.byID[id]; ok && seq.arriving {
		s.land(seq)
	}
}

func (s *Scheduler) land(seq *sequence) {
	seq.arriving = false
	if !seq.admitted {
		seq.admitted, seq.cached = true, min(seq.computed, len(seq.Prompt))
	}
	s.share(seq)
}

// Fall says that the blocks will not be filled which a sequence has begun on, or not soon: it waits again, held as before Begin. Of a step that was in flight no
// Done may follow. It does nothing where the sequence is not Arriving.
func (s *Scheduler) Fall(id string) {
	if seq, ok := s.byID[id]; ok && seq.arriving {
		s.fall(seq)
	}
}

func (s *Scheduler) fall(seq *sequence) {
	remove(&s.running, seq)
	s.pool.Release(seq.table)
	s.adapters.unpin(seq.Request)
	seq.table, seq.computed, seq.committed, seq.arriving, seq.held, seq.state = nil, 0, 0, false, true, Waiting
	if seq.admitted {
		seq.state = Preempted
	}
}
