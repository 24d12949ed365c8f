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

// Backed reports whether a lower tier has the content of a block.
func (p *Pool) Backed(index int32) bool { return p.blocks[index].backed }
