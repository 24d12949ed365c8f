package kv

// This file selects the blocks of a pool to offload. An offloaded block keeps its copy in the pool
// until its place is needed; evicting it then loses nothing and waits for no copy.

// pinnedShare is the divisor of the pool size that limits how many pinned blocks are offloaded at
// once, whatever the burst. A small pool needs their places within a few steps.
const pinnedShare = 4

// SelectOffload selects the blocks to copy to the lower tier now. Including the copies in flight,
// these are at most burst blocks; for pinned blocks the limit is at least 1/pinnedShare of the
// pool.
//
// Pinned blocks with no readers come first, so that they are not lost if their places are needed.
// Other blocks with no readers follow in eviction order, until the places above the watermark are
// empty or hold blocks that are backed below. The watermark is a share of all blocks. Blocks of
// running sequences come last, until as many blocks as exceed the watermark are backed or empty.
// These sequences then lose little when they are preempted.
//
// Until OffloadDone, a selected block can be read and acquired but is not allocated.
func (p *Pool) SelectOffload(watermark float64, burst int) []Committed {
	above, most := p.size-len(p.empty)-p.offloading-int(watermark*float64(p.size)), burst-p.offloading
	all := p.selectFrom(&p.pinned, max(most, p.size/pinnedShare-p.offloading), func(*block) bool { return true })
	if above <= 0 { // the common case; skip the scan over all blocks
		return all
	}
	all = append(all, p.selectFrom(&p.cached, min(above-p.backedCached, most-len(all)),
		func(*block) bool { return true })...)
	n := min(above-p.countBacked(), most)
	for index := 0; index < p.size && len(all) < n; index++ {
		if b := &p.blocks[index]; b.refs > 0 && b.committed && !b.backed && !b.offloading {
			all = append(all, p.startOffload(int32(index)))
		}
	}
	return all
}

// Tick advances the step count. Call it after each step.
func (p *Pool) Tick() { p.step++ }

// SelectIdle selects the blocks to copy to the lower tier although there is room: those with no
// readers for at least steps. burst is as for SelectOffload.
func (p *Pool) SelectIdle(steps uint64, burst int) []Committed {
	return p.selectFrom(&p.cached, burst-p.offloading, func(b *block) bool { return p.step-b.releasedStep >= steps })
}

// selectFrom takes blocks from the head of the list that have no lower copy, stopping at the first
// that is not due.
func (p *Pool) selectFrom(from *blockList, most int, due func(*block) bool) (all []Committed) {
	for index := from.first; index != none && len(all) < most; {
		b := &p.blocks[index]
		next := b.next
		if !b.backed {
			if !due(b) {
				break
			}
			p.uncache(index)
			all = append(all, p.startOffload(index))
		}
		index = next
	}
	return all
}

// countBacked returns the number of blocks that a lower tier has too.
func (p *Pool) countBacked() (n int) {
	for i := range p.blocks {
		if p.blocks[i].backed {
			n++
		}
	}
	return n
}

func (p *Pool) startOffload(index int32) Committed {
	b := &p.blocks[index]
	b.offloading, b.reused = true, false
	b.refs++
	p.offloading++
	return Committed{index, b.hash}
}

// OffloadDone ends the copy of a block. A block that was stored below and not used meanwhile moves
// to the eviction head, so call it for the block to evict first last.
func (p *Pool) OffloadDone(index int32, stored bool) {
	b := &p.blocks[index]
	if !b.offloading {
		panic("kv: OffloadDone without SelectOffload")
	}
	b.offloading, b.backed = false, stored && b.committed
	p.offloading--
	if b.refs > 1 || !b.backed || b.reused || p.pins[b.hash] {
		p.Release([]int32{index})
		return
	}
	b.refs--
	b.pinned = false
	p.cached.pushFront(p.blocks, index)
	p.backedCached++
}

// MarkBacked records that the lower tier has the content of a block, if that is still h: the block
// was restored from there.
func (p *Pool) MarkBacked(index int32, h Hash) {
	b := &p.blocks[index]
	if b.refs == 0 {
		panic("kv: MarkBacked of an unreferenced block")
	}
	b.backed = b.backed || b.committed && b.hash == h
}

// cache appends a block with no readers to its list as the newest.
func (p *Pool) cache(index int32) {
	b := &p.blocks[index]
	b.pinned, b.releasedStep = p.pins[b.hash], p.step
	p.listOf(b).push(p.blocks, index)
	if b.backed && !b.pinned {
		p.backedCached++
	}
}

func (p *Pool) uncache(index int32) {
	b := &p.blocks[index]
	p.listOf(b).remove(p.blocks, index)
	if b.backed && !b.pinned {
		p.backedCached--
	}
}

func (p *Pool) listOf(b *block) *blockList {
	if b.pinned {
		return &p.pinned
	}
	return &p.cached
}
