package kv

import "testing"

// TestPinnedBlocksAreEvictedLast checks that pinned blocks are evicted only if there is no other
// block, whether they were pinned before or after the commit. They are offloaded before all others.
func TestPinnedBlocksAreEvictedLast(t *testing.T) {
	p := NewPool(3, 16)
	p.SetPins(map[Hash]bool{testHash(0): true})
	for i := range 3 {
		b, _ := p.Allocate()
		p.Commit(b, testHash(i))
		p.Release([]int32{b})
	}
	p.SetPins(map[Hash]bool{testHash(0): true, testHash(1): true})
	leaves := p.SelectOffload(1, 8)
	if len(leaves) != 2 || leaves[0].Hash != testHash(0) || leaves[1].Hash != testHash(1) {
		t.Fatalf("selected %v, want the pinned blocks", leaves)
	}
	for _, l := range leaves {
		p.OffloadDone(l.Block, true)
	}
	if p.Pinned() != 2 {
		t.Errorf("%d blocks pinned, want 2", p.Pinned())
	}
	for i, want := range []int{2, 0, 1} {
		if _, ok := p.Allocate(); !ok || p.Match([]Hash{testHash(want)}) != 0 || p.Pinned() != min(2, 2-i) {
			t.Fatalf("eviction %d did not take block %d; %d pinned blocks are left", i, want, p.Pinned())
		}
	}
	if _, ok := p.Allocate(); ok {
		t.Error("allocated a fourth block of a pool of three")
	}
}

// TestSelectIdleOldestFirst checks that blocks without readers for the given number of steps are
// offloaded, the oldest first, and no others.
func TestSelectIdleOldestFirst(t *testing.T) {
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
	leaves := p.SelectIdle(9, 8)
	if len(leaves) != 2 || leaves[0].Hash != testHash(1) || leaves[1].Hash != testHash(2) {
		t.Fatalf("%v", leaves)
	}
	if more := p.SelectIdle(0, 2); len(more) != 0 {
		t.Errorf("selected %v beyond the burst", more)
	}
}
