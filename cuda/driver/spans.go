//go:build linux

package driver

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"troupe/cuda"
)

// span is memory at [start, end).
type span struct {
	start, end cuda.Ptr
	kind       kind
	free       func() error // frees the memory
}

// kind is the way in which memory was created, and so the call that frees it.
type kind uint8

const (
	allocated kind = iota
	mapping        // a copy may cross adjacent mappings
	opened         // memory of another process
	shared         // host memory that another device has page-locked
)

// spans are the allocations sorted by address. Lookups take no lock.
type spans struct {
	mu     sync.Mutex
	sorted atomic.Pointer[[]span] // copied on write
}

func (s *spans) all() []span {
	if all := s.sorted.Load(); all != nil {
		return *all
	}
	return nil
}

func find(all []span, p cuda.Ptr) (at int, exact bool) {
	return slices.BinarySearchFunc(all, p, func(s span, p cuda.Ptr) int {
		switch {
		case s.start < p:
			return -1
		case s.start > p:
			return 1
		}
		return 0
	})
}

func (s *spans) add(added span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, _ := find(s.all(), added.start)
	all := slices.Insert(slices.Clone(s.all()), at, added)
	s.sorted.Store(&all)
}

// take removes the span of a kind that starts at p. Only one call gets it.
func (s *spans) take(p cuda.Ptr, k kind) (taken span, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := find(s.all(), p)
	if !ok || s.all()[at].kind != k {
		return span{}, false
	}
	taken = s.all()[at]
	all := slices.Delete(slices.Clone(s.all()), at, at+1)
	s.sorted.Store(&all)
	return taken, true
}

// covers reports whether [p, p+bytes) is in one span, or in adjacent mappings.
func (s *spans) covers(p cuda.Ptr, bytes int64) bool {
	if bytes == 0 {
		return true
	}
	all, end := s.all(), p.Offset(bytes)
	at, exact := find(all, p)
	if !exact {
		at--
	}
	if bytes < 0 || end < p || at < 0 || p >= all[at].end {
		return false
	}
	for all[at].end < end {
		if all[at].kind != mapping || at+1 == len(all) || all[at+1].start != all[at].end || all[at+1].kind != mapping {
			return false
		}
		at++
	}
	return true
}

// giveBack removes and frees all spans.
func (s *spans) giveBack() error {
	var errs []error
	for _, each := range s.all() {
		if taken, ok := s.take(each.start, each.kind); ok {
			errs = append(errs, taken.free())
		}
	}
	return errors.Join(errs...)
}
