package kv

import "testing"

// TestPinnedBlocksLeaveLast: they are evicted where there is no other block, whether they were pinned before or after they were computed, and copied
// down before anything else.
func TestPinnedBlocksLeaveLast(t *testing.T) {
	p := NewPool(3, 16)
	p.SetPins(map[Hash]bool{testHash(0): true})
	for i := range 3 {
		b, _ := p.Allocate()
		p.Commit(b, testHash(i))
		p.Release([]int32{b})
	}
	p.SetPins(map[Hash]bool{testHash(0): true, testHash(1): true})
	leaves := p.Depart(1, 8)
	if len(leaves) != 2 || leaves[0].Hash != testHash(0) || leaves[1].Hash != testHash(1) {
		t.Fatalf("%v are copied down, and not the blocks that are pinned", leaves)
	}
	for _, l := range leaves {
		p.Left(l.Block, true)
	}
	if p.Pinned() != 2 {
		t.Errorf("%d blocks are pinned, not 2", p.Pinned())
	}
	for i, want := range []int{2, 0, 1} {
		if _, ok := p.Allocate(); !ok || p.Match([]Hash{testHash(want)}) != 0 || p.Pinned() != min(2, 2-i) {
			t.Fatalf("eviction %d was not of block %d; %d pinned ones are left", i, want, p.Pinned())
		}
	}
	if _, ok := p.Allocate(); ok {
		t.Error("there was one block more")
	}
}

// TestIdleBlocksDepart: those that nobody has read for so many steps are copied down, the oldest first, and no others.
func TestIdleBlocksDepart(t *testing.T) {
	p := NewPool(4, 16)
	for i := range 3 {
		b, _ := p.Allocate()
		p.Commit(b, testHash(i))
		p.Release([]int32{b})
		p.Tick()
	}
	p.Release(p.Acquire([]Hash{testHash(0)})) // in step 3; 1 was released in step 1, 2 in step 2
	for range 8 {
		p.Tick()
	}
	leaves := p.DepartIdle(9, 8)
	if len(leaves) != 2 || leaves[0].Hash != testHash(1) || leaves[1].Hash != testHash(2) {
		t.Fatalf("%v", leaves)
	}
	if more := p.DepartIdle(0, 2); len(more) != 0 {
		t.Errorf("%v leave beyond the burst", more)
	}
}
