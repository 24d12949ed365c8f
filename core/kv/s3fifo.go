package kv

// s3fifo is S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023).
// New blocks enter a small queue, and only blocks used again move on to the main queue. A block
// that left the small queue and returns while the ghost queue remembers it goes to main at once.
//
// Unlike the paper, a single use is enough. Only the next turn of a conversation uses its blocks
// again, and docs/benchmarks-kv.md shows better results this way.
type s3fifo struct {
	smallTarget        int            // blocks in small above which blocks are evicted from it
	maxGhost           int            // limit of ghost
	small, main, ghost lruQueue       // oldest first
	uses               map[Hash]uint8 // since the block was added or reinserted; at most mostUses
}

const (
	smallShare = 0.1
	mostUses   = 3
)

func newS3FIFO(slots int) *s3fifo {
	least := max(1, int(smallShare*float64(slots)))
	return &s3fifo{smallTarget: least, maxGhost: max(1, slots-least), small: newLRUQueue(), main: newLRUQueue(),
		ghost: newLRUQueue(),
		uses:  make(map[Hash]uint8)}
}

func (s *s3fifo) Add(h Hash) {
	s.uses[h] = 0
	if s.ghost.remove(h) {
		s.main.push(h)
	} else {
		s.small.push(h)
	}
}

func (s *s3fifo) Use(h Hash) { s.uses[h] = min(s.uses[h]+1, mostUses) }

func (s *s3fifo) Remove(h Hash) {
	delete(s.uses, h)
	s.main.remove(h)
	if !s.small.remove(h) {
		return
	}
	s.ghost.push(h)
	for s.ghost.len() > s.maxGhost {
		oldest, _ := s.ghost.oldest(anyBlock)
		s.ghost.remove(oldest)
	}
}

func (s *s3fifo) Victim(eligible func(Hash) bool) (Hash, bool) {
	if s.small.len() >= s.smallTarget || s.main.len() == 0 {
		if h, ok := s.victimFromSmall(eligible); ok {
			return h, true
		}
	}
	if h, ok := s.victimFromMain(eligible); ok {
		return h, true
	}
	return s.victimFromSmall(eligible)
}

// victimFromSmall returns the oldest eligible unused block of small. It moves used ones to main.
func (s *s3fifo) victimFromSmall(eligible func(Hash) bool) (Hash, bool) {
	for {
		h, ok := s.small.oldest(eligible)
		if !ok || s.uses[h] == 0 {
			return h, ok
		}
		s.uses[h] = 0
		s.small.remove(h)
		s.main.push(h)
	}
}

// victimFromMain returns the oldest eligible unused block of main. It reinserts used ones.
func (s *s3fifo) victimFromMain(eligible func(Hash) bool) (Hash, bool) {
	for {
		h, ok := s.main.oldest(eligible)
		if !ok || s.uses[h] == 0 {
			return h, ok
		}
		s.uses[h]--
		s.main.push(h)
	}
}
