package batch

import "troupe/core/kv"

// First is the sequence that is admitted next, and the hashes of the blocks that it could begin with. There is none while there is no place for one.
func (s *Scheduler) First() (id string, hashes []kv.Hash, ok bool) {
	seq := s.next()
	if seq == nil || !s.hasPlace(seq) {
		return "", nil, false
	}
	size := s.pool.BlockTokens()
	hashes = seq.reusable(size)
	if seq.parked%size > 0 && seq.parked/size == len(hashes) {
		hashes = append(hashes, seq.partial(size))
	}
	return seq.ID, hashes, true
}

// hasPlace reports whether there is a place for a sequence, or one that gives way to it.
func (s *Scheduler) hasPlace(seq *sequence) bool {
	return len(s.running) < s.places() || len(s.yields(seq, 0)) > 0
}

// reusable are the hashes of the blocks that a sequence need not compute: the last token always is, since its logits choose the next.
func (s *sequence) reusable(blockTokens int) []kv.Hash {
	n := (len(s.tokens) - 1) / blockTokens
	if n == 0 {
		return nil
	}
	s.hash(n-1, blockTokens)
	return s.hashes[:n:n]
}
