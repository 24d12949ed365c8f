package kv

import (
	"fmt"
	"testing"
)

// held allocates a block for each hash and keeps it referenced.
func held(p *Pool, hashes ...int) (table []int32) {
	for _, h := range hashes {
		b, _ := p.Allocate()
		p.Commit(b, testHash(h))
		table = append(table, b)
	}
	return table
}

// TestSelectOffload checks that offloaded blocks are the next victims, and that enough places above
// the watermark can be reused without loss.
func TestSelectOffload(t *testing.T) {
	offloadAll := func(p *Pool, all []Committed) {
		for _, c := range all {
			p.OffloadDone(c.Block, true)
		}
	}
	for name, tc := range map[string]struct {
		before    func(*Pool)
		watermark float64
		want      string
	}{
		"pinned blocks whatever the watermark": {func(p *Pool) {
			p.SetPins(map[Hash]bool{testHash(2): true})
			p.Release(held(p, 1, 2, 3))
		}, 1, "[2]"},
		"backed pinned blocks do not count as room": {func(p *Pool) {
			p.SetPins(map[Hash]bool{testHash(1): true, testHash(2): true, testHash(3): true})
			p.Release(held(p, 1, 2, 3))
			offloadAll(p, p.SelectOffload(1, 8))
			p.Release(held(p, 8, 7, 6, 5, 4))
		}, 0.8, "[4 5]"},
		"backed blocks in use do not count as room": {func(p *Pool) {
			held(p, 1, 2, 3)
			offloadAll(p, p.SelectOffload(0, 8))
			held(p, 4)
			p.Release(held(p, 8, 7, 6, 5))
		}, 0.8, "[5 6]"},
		"blocks in use come last": {func(p *Pool) {
			held(p, 1, 2, 3, 4, 5, 6)
			p.Release(held(p, 8, 7))
		}, 0.6, "[7 8 1 2]"},
		"blocks in use stay if enough are backed": {func(p *Pool) {
			held(p, 1, 2)
			offloadAll(p, p.SelectOffload(0, 8))
			held(p, 3, 4, 5, 6, 7, 8)
		}, 0.8, "[]"},
	} {
		p := NewPool(8, 16)
		tc.before(p)
		got := []int{}
		for _, c := range p.SelectOffload(tc.watermark, 8) {
			for h := range 9 {
				if testHash(h) == c.Hash {
					got = append(got, h)
				}
			}
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("%s: selected %v, want %s", name, got, tc.want)
		}
	}
}

// TestPinnedBlocksOffloadBeyondTheBurst checks that pinned blocks are offloaded up to a quarter of
// the pool at once, even if the burst is smaller, and that nothing else is offloaded meanwhile.
func TestPinnedBlocksOffloadBeyondTheBurst(t *testing.T) {
	p := NewPool(8, 16)
	p.SetPins(map[Hash]bool{testHash(1): true, testHash(2): true, testHash(3): true})
	p.Release(held(p, 4, 3, 2, 1))
	for i, want := range []int{2, 0} {
		if got := p.SelectOffload(0, 1); len(got) != want || want > 0 &&
			(got[0].Hash != testHash(1) || got[1].Hash != testHash(2)) {
			t.Errorf("call %d selected %v", i, got)
		}
	}
}
