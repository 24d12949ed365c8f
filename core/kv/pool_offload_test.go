package kv

import (
	"fmt"
	"testing"
)

// held makes a block of each hash, which somebody reads.
func held(p *Pool, hashes ...int) (table []int32) {
	for _, h := range hashes {
		b, _ := p.Allocate()
		p.Commit(b, testHash(h))
		table = append(table, b)
	}
	return table
}

// TestWhatDeparts: places that can be taken without loss are those of blocks that are evicted next, and nobody reads.
func TestWhatDeparts(t *testing.T) {
	below := func(p *Pool, all []Committed) {
		for _, c := range all {
			p.Left(c.Block, true)
		}
	}
	for name, tc := range map[string]struct {
		before    func(*Pool)
		watermark float64
		want      string
	}{
		"what is pinned goes whatever the watermark": {func(p *Pool) {
			p.SetPins(map[Hash]bool{testHash(2): true})
			p.Release(held(p, 1, 2, 3))
		}, 1, "[2]"},
		"what is pinned and below makes no room for others": {func(p *Pool) {
			p.SetPins(map[Hash]bool{testHash(1): true, testHash(2): true, testHash(3): true})
			p.Release(held(p, 1, 2, 3))
			below(p, p.Depart(1, 8))
			p.Release(held(p, 8, 7, 6, 5, 4))
		}, 0.8, "[4 5]"},
		"nor what is in use and below": {func(p *Pool) {
			held(p, 1, 2, 3)
			below(p, p.Depart(0, 8))
			held(p, 4)
			p.Release(held(p, 8, 7, 6, 5))
		}, 0.8, "[5 6]"},
		"what is in use goes after what is not": {func(p *Pool) {
			held(p, 1, 2, 3, 4, 5, 6)
			p.Release(held(p, 8, 7))
		}, 0.6, "[7 8 1 2]"},
		"and stays where enough of it is below": {func(p *Pool) {
			held(p, 1, 2)
			below(p, p.Depart(0, 8))
			held(p, 3, 4, 5, 6, 7, 8)
		}, 0.8, "[]"},
	} {
		p := NewPool(8, 16)
		tc.before(p)
		got := []int{}
		for _, c := range p.Depart(tc.watermark, 8) {
			for h := range 9 {
				if testHash(h) == c.Hash {
					got = append(got, h)
				}
			}
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("%s: %v departs, not %s", name, got, tc.want)
		}
	}
}

// TestPinnedBurst: of what is pinned a quarter of the pool departs at once, though the burst is smaller, and in that time nothing else.
func TestPinnedBurst(t *testing.T) {
	p := NewPool(8, 16)
	p.SetPins(map[Hash]bool{testHash(1): true, testHash(2): true, testHash(3): true})
	p.Release(held(p, 4, 3, 2, 1))
	for i, want := range []int{2, 0} {
		if got := p.Depart(0, 1); len(got) != want || want > 0 && (got[0].Hash != testHash(1) || got[1].Hash != testHash(2)) {
			t.Errorf("%d: %v", i, got)
		}
	}
}
