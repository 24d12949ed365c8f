package kv

// SetPins replaces the set of pinned blocks, which need not be present. Pinned blocks with no
// readers are evicted last.
func (p *Pool) SetPins(pins map[Hash]bool) {
	p.pins = pins
	for index := range p.blocks {
		if b := &p.blocks[index]; b.committed && b.refs == 0 && b.pinned != pins[b.hash] {
			p.uncache(int32(index))
			p.cache(int32(index))
		}
	}
}

// Pinned returns the number of pinned blocks that the pool holds.
func (p *Pool) Pinned() (n int) {
	for h := range p.pins {
		if _, here := p.byHash[h]; here {
			n++
		}
	}
	return n
}

// Flush evicts the unpinned blocks with no readers and returns their number.
func (p *Pool) Flush() (n int) {
	for ; p.cached.first != none; n++ {
		index := p.cached.first
		p.uncache(index)
		p.dropHash(index)
		p.empty = append(p.empty, index)
	}
	return n
}

// Pin prevents eviction of a block, now or once it arrives, until Unpin was called as often as Pin.
// A pinned block leaves after all unpinned blocks of its size.
func (t *Tier) Pin(h Hash) {
	t.pins[h]++
	slot, here := t.byHash[h]
	if !here {
		return
	}
	in, s := t.at(slot)
	if in.newOwner != nil {
		i, _ := t.limits.Slabs.Locate(slot)
		t.cancelReassign(i)
	}
	if s.state == Leaving {
		t.cancelDemotion(in, s)
	}
}

// Unpin removes one pin. It reports false if the block has none.
func (t *Tier) Unpin(h Hash) bool {
	n, ok := t.pins[h]
	switch {
	case n > 1:
		t.pins[h] = n - 1
	case ok:
		delete(t.pins, h)
	}
	return ok
}
