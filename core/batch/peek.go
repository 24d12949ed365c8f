package batch

import "troupe/core/kv"

// PeekWaiting returns the sequence that is admitted next and the hashes of the blocks that it could
// start with. It reports false if no sequence waits or none can be admitted.
func (s *Scheduler) PeekWaiting() (id string, hashes []kv.Hash, ok bool) {
	seq := s.nextWaiting()
	if seq == nil || !s.canRun(seq) {
		return "", nil, false
	}
	size := s.pool.BlockTokens()
	hashes = seq.reusable(size)
	if seq.savedTokens%size > 0 && seq.savedTokens/size == len(hashes) {
		hashes = append(hashes, seq.partial(size))
	}
	return seq.ID, hashes, true
}

// canRun reports whether a place for a sequence is free or can be freed by preemption.
func (s *Scheduler) canRun(seq *sequence) bool {
	return len(s.running) < s.runLimit() || len(s.victims(seq, 0)) > 0
}

// reusable returns the hashes of the blocks that a sequence need not compute. The last token is
// always computed, since its logits choose the next one.
func (s *sequence) reusable(blockTokens int) []kv.Hash {
	n := (len(s.tokens) - 1) / blockTokens
	if n == 0 {
		return nil
	}
	s.hash(n-1, blockTokens)
	return s.hashes[:n:n]
}
