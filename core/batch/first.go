package batch

import "troupe/core/kv"

// First is the sequence that is admitted next, and the hashes of the blocks that it could begin with. There is none while there is no place for one.
func (s *Scheduler) First() (id string, hashes []kv.Hash, ok bool) {
	if len(s.waiting) == 0 || !s.hasPlace(s.waiting[0]) {
		return "", nil, false
	}
	seq := s.waiting[0]
	size := s.pool.BlockTokens()
	hashes = seq.reusable(size)
	if seq.parked%size > 0 && seq.parked/size == len(hashes) {
		hashes = append(hashes, seq.partial(size))
	}
	return seq.ID, hashes, true
}

// hasPlace reports whether there is a place for a sequence, or one of a lower class to take one from.
func (s *Scheduler) hasPlace(seq *sequence) bool {
	n := len(s.running)
	return n < s.places() || n > 0 && s.running[n-1].Class < seq.Class
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
