package kv

import (
	"fmt"
	"slices"
)

// Policy selects the block that leaves a full tier. It tracks the resident blocks and knows nothing
// of slots.
//
// The blocks of a prompt are added and used from the end of the prompt to its beginning. Of
// otherwise equal blocks the end therefore leaves first: the beginning is useful without the end,
// but not the reverse.
type Policy interface {
	// Add records that a block became resident.
	Add(h Hash)
	// Use records a lookup of a resident block.
	Use(h Hash)
	// Remove records that a block is no longer resident or is leaving.
	Remove(h Hash)
	// Victim returns the eligible block that should leave next. The block stays until Remove. It
	// reports false if no block is eligible.
	Victim(eligible func(Hash) bool) (Hash, bool)
}

// policies are the constructors by name; slots is the capacity of the tier.
var policies = map[string]func(slots int) Policy{
	"lru":       func(slots int) Policy { return newSLRU(slots, 0) },
	"lru-reuse": func(slots int) Policy { return newSLRU(slots, protectedShare) },
	"s3-fifo":   func(slots int) Policy { return newS3FIFO(slots) },
	"w-tinylfu": func(slots int) Policy { return newTinyLFU(slots) },
}

// DefaultPolicy is the policy closest to the optimum in docs/benchmarks-kv.md.
const DefaultPolicy = "s3-fifo"

// PolicyNames returns the names that NewPolicy accepts.
func PolicyNames() []string { return []string{"lru", "lru-reuse", "s3-fifo", "w-tinylfu"} }

// NewPolicy returns a new policy by its name, for a tier with the given number of slots.
func NewPolicy(name string, slots int) (Policy, error) {
	f, ok := policies[name]
	if !ok {
		return nil, fmt.Errorf("unknown eviction policy %q; use one of %v", name,
			slices.Sorted(slices.Values(PolicyNames())))
	}
	return f(slots), nil
}

// protectedShare is the share of the slots reserved for blocks that were used again.
const protectedShare = 0.8

// slru is segmented LRU (Karedla et al., "Caching strategies to improve disk system performance",
// 1994). Blocks used again are protected: they leave after all others, within the protected share.
// With a share of 0 it is plain LRU.
type slru struct {
	maxProtected int
	// Both queues are ordered least recently used first.
	probation, protected lruQueue
}

func newSLRU(slots int, share float64) *slru {
	return &slru{maxProtected: int(share * float64(slots)), probation: newLRUQueue(), protected: newLRUQueue()}
}

func (s *slru) len() int { return s.probation.len() + s.protected.len() }

func (s *slru) Add(h Hash) { s.probation.push(h) }

func (s *slru) Use(h Hash) {
	s.probation.remove(h)
	s.protected.push(h)
	for s.protected.len() > s.maxProtected {
		oldest, _ := s.protected.oldest(anyBlock)
		s.protected.remove(oldest)
		s.probation.push(oldest)
	}
}

func (s *slru) Remove(h Hash) {
	s.probation.remove(h)
	s.protected.remove(h)
}

func (s *slru) Victim(eligible func(Hash) bool) (Hash, bool) {
	if h, ok := s.probation.oldest(eligible); ok {
		return h, true
	}
	return s.protected.oldest(eligible)
}
