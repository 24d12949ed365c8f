package kv

// Take gives a block back to its only reader, to write on behind what it holds: nobody finds it by its hash any more. A copy down a tier that is under
// way goes on, and is of no use. It reports false, and does nothing, where somebody else reads the block.
func (p *Pool) Take(index int32) bool {
	b := &p.blocks[index]
	readers := b.refs
	if b.departing {
		readers--
	}
	if readers != 1 || !b.committed {
		return false
	}
	p.forget(index)
	p.stats.Evictions-- // it is lost to nobody
	return true
}

// Forget takes the hash of a block away, so that no request finds it any more. Its readers keep it; a copy down a tier
// that is under way goes on, and is of no use. It reports whether the block had one.
func (p *Pool) Forget(index int32) bool {
	b := &p.blocks[index]
	if b.refs == 0 {
		panic("kv: forget of an unreferenced block")
	}
	if !b.committed {
		return false
	}
	p.forget(index)
	p.stats.Evictions-- // it made room for no other
	return true
}

// IsBelow reports whether a lower tier has what a block holds.
func (p *Pool) IsBelow(index int32) bool { return p.blocks[index].below }
