package batch

import "troupe/core/kv"

// A preempted sequence leaves full blocks and usually one partial block. While the sequence waits,
// the partial block is identified by a hash too, of fewer tokens than a full block's. It can thus
// be found again, and copied to lower tiers like any other block.

// saveBlocks releases a sequence's blocks and records how many tokens they hold. Blocks that a
// lower tier has too are evicted first.
func (p *planning) saveBlocks(seq *sequence) {
	size := p.pool.BlockTokens()
	full := seq.computed / size
	seq.savedTokens = seq.computed
	if seq.computed%size == 0 {
		p.pool.Release(seq.table)
		return
	}
	p.pool.Commit(seq.table[full], seq.partial(size))
	if full == 0 || !p.pool.Backed(seq.table[full-1]) {
		p.pool.Release(seq.table)
		return
	}
	p.pool.Release(seq.table[full+1:])
	p.pool.Release(seq.table[:full])
	p.pool.Release(seq.table[full : full+1])
}

// restorePartial reacquires the partial block of a sequence that has all full blocks before it.
func (p *planning) restorePartial(seq *sequence) {
	size := p.pool.BlockTokens()
	if seq.savedTokens%size == 0 || seq.computed != seq.savedTokens/size*size {
		return
	}
	found := p.pool.Acquire([]kv.Hash{seq.partial(size)})
	if len(found) == 0 {
		return
	}
	if !p.pool.ClaimExclusive(found[0]) {
		p.pool.Release(found)
		return
	}
	seq.table, seq.computed = append(seq.table, found[0]), seq.savedTokens
}

// partial returns the hash of the partial block, which holds the last of the saved tokens.
func (s *sequence) partial(blockTokens int) kv.Hash {
	parent, full := s.Root, s.savedTokens/blockTokens
	if full > 0 {
		parent = s.hash(full-1, blockTokens)
	}
	return parent.Next(s.tokens[full*blockTokens : s.savedTokens])
}
