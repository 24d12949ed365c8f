package batch

import "slices"

// A sequence can start while a restore is still filling its first blocks. It runs like any other,
// but its entries are Restoring until a step with one of them or the restore is done. Until then
// those blocks are not offered for sharing.

// StartRestoring starts a held waiting sequence on blocks that the caller has referenced. These are
// the blocks of the hashes that PeekWaiting returned; the first resident ones are filled, the
// others not yet. The sequence gets references of its own. StartRestoring reports false and does
// nothing if no place or too few blocks are free, or if another sequence is served first. Like
// Plan, it must not be called while a step is in flight.
func (s *Scheduler) StartRestoring(id string, table []int32, resident int) bool {
	seq, ok := s.byID[id]
	if !ok || !seq.held || seq.state == Running || len(s.running) >= s.runLimit() {
		return false
	}
	if first := s.nextWaiting(); first != nil && first.servedBefore(seq) {
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
	if len(table) > (len(seq.tokens)-1)/size { // the last block is partial
		seq.computed = seq.savedTokens
	}
	seq.held, seq.restoring, seq.state = false, true, Running
	insert(&s.running, seq)
	return true
}

// RestoreDone records that the blocks of a sequence started by StartRestoring are filled. It does
// nothing if the sequence is not Restoring.
func (s *Scheduler) RestoreDone(id string) {
	if seq, ok := s.byID[id]; ok && seq.restoring {
		s.restoreDone(seq)
	}
}

func (s *Scheduler) restoreDone(seq *sequence) {
	seq.restoring = false
	seq.admit()
	s.commitFull(seq)
}

// RestoreFailed requeues a sequence whose restore failed, held as before StartRestoring. Do not
// call Done for a step that included it. It does nothing if the sequence is not Restoring.
func (s *Scheduler) RestoreFailed(id string) {
	if seq, ok := s.byID[id]; ok && seq.restoring {
		s.restoreFailed(seq)
	}
}

func (s *Scheduler) restoreFailed(seq *sequence) {
	remove(&s.running, seq)
	s.pool.Release(seq.table)
	s.adapters.unpin(seq.Request)
	seq.table, seq.computed, seq.committed, seq.restoring, seq.held, seq.state = nil, 0, 0, false, true, Waiting
	if seq.admitted {
		seq.state = Preempted
	}
}
