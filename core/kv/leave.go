package kv

// A pool whose blocks can be copied down a tier. A block that is below too stays here until its place is needed, which then loses
// nothing and waits for nobody.

// Depart decides which blocks are copied down now: as many as are above the watermark, a share of all blocks, and at most so many at
// once with those under way. Blocks that are below too are not counted, since their places can be taken at any moment. What nobody reads goes first, in the order in
// which it would be evicted; then what running sequences hold, so that they lose nothing when they have to give way.
// Until Left, they can be read and acquired as before, and are not given to anybody.
func (p *Pool) Depart(watermark float64, burst int) []Committed {
	above := p.size - len(p.empty) - p.spare - p.departing - p.belowInUse() - int(watermark*float64(p.size))
	n := min(above, burst-p.departing)
	var all []Committed
	for index := p.cached.first; index != none && len(all) < n; {
		b := &p.blocks[index]
		next := b.next
		if !b.below {
			p.uncache(index)
			all = append(all, p.depart(index))
		}
		index = next
	}
	for index := 0; index < p.size && len(all) < n; index++ {
		if b := &p.blocks[index]; b.refs > 0 && b.committed && !b.below && !b.departing {
			all = append(all, p.depart(int32(index)))
		}
	}
	return all
}

// belowInUse is how many blocks somebody reads that are below too.
func (p *Pool) belowInUse() (n int) {
	for i := range p.blocks {
		if b := &p.blocks[i]; b.below && b.refs > 0 {
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
	if b.refs > 1 || !b.below || b.wanted {
		p.Release([]int32{index})
		return
	}
	b.refs--
	p.cached.pushFirst(p.blocks, index)
	p.spare++
}

// Below says that the tier below has a committed block too: it came from there.
func (p *Pool) Below(index int32) {
	b := &p.blocks[index]
	if b.refs == 0 {
		panic("kv: an unreferenced block came from below")
	}
	b.below = b.committed
}

// cache puts a block that nobody reads where Allocate takes it from, as the newest.
func (p *Pool) cache(index int32) {
	p.cached.push(p.blocks, index)
	if p.blocks[index].below {
		p.spare++
	}
}

func (p *Pool) uncache(index int32) {
	p.cached.remove(p.blocks, index)
	if p.blocks[index].below {
		p.spare--
	}
}
