package kv

// SetPins says which blocks are pinned from now on, whether they are here or not: of what nobody reads they are evicted last.
func (p *Pool) SetPins(pins map[Hash]bool) {
	p.pins = pins
	for index := range p.blocks {
		if b := &p.blocks[index]; b.committed && b.refs == 0 && b.pinned != pins[b.hash] {
			p.uncache(int32(index))
			p.cache(int32(index))
		}
	}
}

// Pinned is how many blocks are here that are pinned.
func (p *Pool) Pinned() (n int) {
	for h := range p.pins {
		if _, here := p.byHash[h]; here {
			n++
		}
	}
	return n
}

// Flush evicts what nobody reads and is not pinned, and returns how many blocks that was.
func (p *Pool) Flush() (n int) {
	for ; p.cached.first != none; n++ {
		index := p.cached.first
		p.uncache(index)
		p.forget(index)
		p.empty = append(p.empty, index)
	}
	return n
}

// Pin keeps a block from being dropped for others once it is here, until as many calls of Unpin. It leaves after all that are not pinned.
func (t *Tier) Pin(h Hash) {
	t.pins[h]++
	slot, here := t.byHash[h]
	if !here {
		return
	}
	in, s := t.at(slot)
	if in.heir != nil {
		i, _ := t.limits.Slabs.Of(slot)
		t.retain(i)
	}
	if s.state == Leaving {
		t.stay(in, s)
	}
}

// Unpin takes one pin away. It reports false where there is none.
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
