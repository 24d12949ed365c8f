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

// IsBelow reports whether a lower tier has what a block holds.
func (p *Pool) IsBelow(index int32) bool { return p.blocks[index].below }
