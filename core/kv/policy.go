package kv

import (
	"fmt"
	"slices"
)

// Policy decides which block of a full tier leaves. It is told of the blocks that are resident, and knows nothing of slots.
//
// The blocks of a prompt are told of from its end to its beginning, so that of equals the end leaves first: the beginning is of
// use without it, but not the other way round.
type Policy interface {
	Add(h Hash)    // it became resident
	Use(h Hash)    // it is resident, and was wanted
	Remove(h Hash) // it is resident no more, or is leaving
	// Victim is the block that should leave next, of those that may. It stays until Remove.
	Victim(may func(Hash) bool) (Hash, bool)
}

// Policies by name, for a tier of so many slots.
var policies = map[string]func(slots int) Policy{
	"lru":       func(slots int) Policy { return newSegmented(slots, 0) },
	"lru-reuse": func(slots int) Policy { return newSegmented(slots, protectedShare) },
	"s3-fifo":   func(slots int) Policy { return newS3FIFO(slots) },
	"w-tinylfu": func(slots int) Policy { return newTinyLFU(slots) },
}

// DefaultPolicy is the one that comes nearest to the optimum in docs/benchmarks-kv.md.
const DefaultPolicy = "s3-fifo"

// PolicyNames are those that NewPolicy knows.
func PolicyNames() []string { return []string{"lru", "lru-reuse", "s3-fifo", "w-tinylfu"} }

// NewPolicy returns the policy of that name.
func NewPolicy(name string, slots int) (Policy, error) {
	f, ok := policies[name]
	if !ok {
		return nil, fmt.Errorf("no eviction policy is called %q; there are %v", name, slices.Sorted(slices.Values(PolicyNames())))
	}
	return f(slots), nil
}

// protectedShare of the slots is for blocks that were wanted again.
const protectedShare = 0.8

// segmented is LRU with protection by reuse (Karedla et al., "Caching strategies to improve disk system performance", 1994): what
// was wanted again leaves after everything that was not, as long as there is not too much of it. With no share protected, it is LRU.
type segmented struct {
	protected   int
	once, again order // least recently used first
}

func newSegmented(slots int, share float64) *segmented {
	return &segmented{protected: int(share * float64(slots)), once: newOrder(), again: newOrder()}
}

func (s *segmented) len() int { return s.once.len() + s.again.len() }

func (s *segmented) Add(h Hash) { s.once.push(h) }

func (s *segmented) Use(h Hash) {
	s.once.remove(h)
	s.again.push(h)
	for s.again.len() > s.protected {
		oldest, _ := s.again.oldest(whichever)
		s.again.remove(oldest)
		s.once.push(oldest)
	}
}

func (s *segmented) Remove(h Hash) {
	s.once.remove(h)
	s.again.remove(h)
}

func (s *segmented) Victim(may func(Hash) bool) (Hash, bool) {
	if h, ok := s.once.oldest(may); ok {
		return h, true
	}
	return s.again.oldest(may)
}
