package kv

// ClaimExclusive removes the hash of a block with a single reader, so that the reader can keep
// writing to it. The block is no longer found by its hash. A copy to a lower tier that is in flight
// completes but is useless. It reports false and does nothing if the block has other readers or is
// not committed.
func (p *Pool) ClaimExclusive(index int32) bool {
	b := &p.blocks[index]
	readers := b.refs
	if b.offloading {
		readers--
	}
	if readers != 1 || !b.committed {
		return false
	}
	p.dropHash(index)
	p.stats.Evictions-- // the reader keeps the content
	return true
}

// Forget removes the hash of a block, so that no request finds it. Its readers keep the block. A copy to a
// lower tier that is in flight completes but is useless. It reports whether the block had a hash.
func (p *Pool) Forget(index int32) bool {
	b := &p.blocks[index]
	if b.refs == 0 {
		panic("kv: Forget of an unreferenced block")
	}
	if !b.committed {
		return false
	}
	p.dropHash(index)
	p.stats.Evictions-- // no other block took its memory
	return true
}

// Backed reports whether a lower tier has the content of a block.
func (p *Pool) Backed(index int32) bool { return p.blocks[index].backed }
