package batch

import "troupe/core/kv"

// First is the sequence that is admitted next, if there is room, and the hashes of the blocks that it could begin with.
func (s *Scheduler) First() (id string, hashes []kv.Hash, ok bool) {
	if len(s.waiting) == 0 {
		return "", nil, false
	}
	seq := s.waiting[0]
	return seq.ID, seq.reusable(s.pool.BlockTokens()), true
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
