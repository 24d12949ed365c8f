//go:build linux

package driver

import (
	"testing"

	"troupe/cuda"
)

func TestSpans(t *testing.T) {
	var s spans
	for _, each := range []span{
		{start: 100, end: 200}, {start: 200, end: 300}, // adjacent allocations, which do not merge
		{start: 400, end: 500, kind: mapping}, {start: 500, end: 600, kind: mapping},
		{start: 601, end: 700, kind: mapping},
		{start: 700, end: 800},
	} {
		s.add(each)
	}
	for _, c := range []struct {
		at     cuda.Ptr
		bytes  int64
		covers bool
	}{
		{100, 100, true}, {150, 50, true}, {199, 2, false}, {99, 2, false}, {50, 10, false}, {300, 1, false},
		{800, 1, false},
		{400, 200, true}, {450, 100, true}, {450, 151, false}, {550, 100, false}, {650, 51, false}, {650, 100, false},
		{0, 0, true}, {150, -1, false}, {150, 1 << 62, false}, {^cuda.Ptr(0), 2, false},
	} {
		if s.covers(c.at, c.bytes) != c.covers {
			t.Errorf("[%d, +%d): want %v", c.at, c.bytes, c.covers)
		}
	}
	if _, ok := s.take(400, allocated); ok {
		t.Error("took a mapping as an allocation")
	}
	if _, ok := s.take(400, mapping); !ok || s.covers(400, 1) || !s.covers(500, 100) {
		t.Error("did not take the mapping only")
	}
	if _, ok := s.take(400, mapping); ok {
		t.Error("took the mapping twice")
	}
}
