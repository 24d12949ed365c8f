package kv

// A pool whose blocks can be copied down a tier. A block that is below too stays here until its place is needed, which then loses
// nothing and waits for nobody.

// pinnedShare of all blocks, one part is copied down at once of those that are pinned, however small the burst: a small pool needs their places within few steps.
const pinnedShare = 4

// Depart decides which blocks are copied down now, at most so many at once with those under way: first what is pinned and nobody reads, so that it is not lost
// should its place be needed all the same; of that pinnedShare may go. Of the rest that nobody reads, in the order in which it would be evicted, as many as have the places above the
// watermark, a share of all blocks, empty or held by what is below too. Then what running sequences hold, until as many blocks as there are above
// the watermark are below or empty, so that they lose little when they have to give way.
// Until Left, they can be read and acquired as before, and are not given to anybody.
func (p *Pool) Depart(watermark float64, burst int) []Committed {
	above, most := p.size-len(p.empty)-p.departing-int(watermark*float64(p.size)), burst-p.departing
	all := p.departFrom(&p.kept, max(most, p.size/pinnedShare-p.departing), func(*block) bool { return true })
	if above <= 0 { // as ever below the watermark: no look at each block between two steps
		return all
	}
	all = append(all, p.departFrom(&p.cached, min(above-p.spare, most-len(all)), func(*block) bool { return true })...)
	n := min(above-p.backed(), most)
	for index := 0; index < p.size && len(all) < n; index++ {
		if b := &p.blocks[index]; b.refs > 0 && b.committed && !b.below && !b.departing {
			all = append(all, p.depart(int32(index)))
		}
	}
	return all
}

// Tick says that a step was run.
func (p *Pool) Tick() { p.step++ }

// DepartIdle decides which blocks are copied down although there is room: those that nobody has read for so many steps. Burst is as of Depart.
func (p *Pool) DepartIdle(steps uint64, burst int) []Committed {
	return p.departFrom(&p.cached, burst-p.departing, func(b *block) bool { return p.step-b.released >= steps })
}

// departFrom has the first blocks of a list copied down that are not below yet, up to the first one that is not to be.
func (p *Pool) departFrom(from *list, most int, due func(*block) bool) (all []Committed) {
	for index := from.first; index != none && len(all) < most; {
		b := &p.blocks[index]
		next := b.next
		if !b.below {
			if !due(b) {
				break
			}
			p.uncache(index)
			all = append(all, p.depart(index))
		}
		index = next
	}
	return all
}

// backed is how many blocks are below too.
func (p *Pool) backed() (n int) {
	for i := range p.blocks {
		if p.blocks[i].below {
			n++
		}
	}
	return n
}

func (p *Pool) depart(index int32) Committed {
	b := &p.blocks[index]
	b.departing, b.wanted = true, false
	b.refs++
	p.departing++
	return Committed{index, b.hash}
}

// Left ends the copy of a block, and says whether the tier below has it now. Unless it was wanted meanwhile such a block is the first to be
// evicted; so of several that is the last which Left is called for.
func (p *Pool) Left(index int32, below bool) {
	b := &p.blocks[index]
	if !b.departing {
		panic("kv: end of a departure that did not begin")
	}
	b.departing, b.below = false, below && b.committed
	p.departing--
	if b.refs > 1 || !b.below || b.wanted || p.pins[b.hash] {
		p.Release([]int32{index})
		return
	}
	b.refs--
	b.pinned = false
	p.cached.pushFirst(p.blocks, index)
	p.spare++
}

// Below says that the tier below has what a block holds, if that is h: it came from there.
func (p *Pool) Below(index int32, h Hash) {
	b := &p.blocks[index]
	if b.refs == 0 {
		panic("kv: an unreferenced block came from below")
	}
	b.below = b.below || b.committed && b.hash == h
}

// cache puts a block that nobody reads where Allocate takes it from, as the newest.
func (p *Pool) cache(index int32) {
	b := &p.blocks[index]
	b.pinned, b.released = p.pins[b.hash], p.step
	p.listOf(b).push(p.blocks, index)
	if b.below && !b.pinned {
		p.spare++
	}
}

func (p *Pool) uncache(index int32) {
	b := &p.blocks[index]
	p.listOf(b).remove(p.blocks, index)
	if b.below && !b.pinned {
		p.spare--
	}
}

func (p *Pool) listOf(b *block) *list {
	if b.pinned {
		return &p.kept
	}
	return &p.cached
}
