package kv

// s3fifo keeps new blocks in a small queue, from which only those that were wanted again move to the main one (Yang et al., "FIFO queues
// are all you need for cache eviction", SOSP 2023). A block that left the small queue and comes back while it is
// remembered goes to the main one at once. Unlike there, being wanted once is enough: the prompts of a conversation's next turn are
// the only ones that want its blocks, and docs/benchmarks-kv.md is the better for it.
type s3fifo struct {
	least              int            // blocks in small from which on it is the one to shrink
	remembered         int            // blocks in ghost, at most
	small, main, ghost order          // oldest first
	uses               map[Hash]uint8 // since it came, or came around in main; at most mostUses
}

const (
	smallShare = 0.1
	mostUses   = 3
)

func newS3FIFO(slots int) *s3fifo {
	least := max(1, int(smallShare*float64(slots)))
	return &s3fifo{least: least, remembered: max(1, slots-least), small: newOrder(), main: newOrder(), ghost: newOrder(),
		uses: make(map[Hash]uint8)}
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
	for s.ghost.len() > s.remembered {
		oldest, _ := s.ghost.oldest(whichever)
		s.ghost.remove(oldest)
	}
}

func (s *s3fifo) Victim(may func(Hash) bool) (Hash, bool) {
	if s.small.len() >= s.least || s.main.len() == 0 {
		if h, ok := s.fromSmall(may); ok {
			return h, true
		}
	}
	if h, ok := s.fromMain(may); ok {
		return h, true
	}
	return s.fromSmall(may)
}

// fromSmall moves what was wanted again on to main until it finds one that was not.
func (s *s3fifo) fromSmall(may func(Hash) bool) (Hash, bool) {
	for {
		h, ok := s.small.oldest(may)
		if !ok || s.uses[h] == 0 {
			return h, ok
		}
		s.uses[h] = 0
		s.small.remove(h)
		s.main.push(h)
	}
}

// fromMain sends what was wanted around once more.
func (s *s3fifo) fromMain(may func(Hash) bool) (Hash, bool) {
	for {
		h, ok := s.main.oldest(may)
		if !ok || s.uses[h] == 0 {
			return h, ok
		}
		s.uses[h]--
		s.main.push(h)
	}
}
