package batch

import "troupe/core/kv"

// A sequence that gives way leaves full blocks, and mostly one that is not full. That one is known by a hash too while the sequence waits, of fewer tokens
// than a full one's, so that it can be found again and be copied down the tiers like any other.

// park gives a sequence's blocks up, and remembers how many tokens they hold. What nothing is lost with is evicted first.
func (p *planning) park(seq *sequence) {
	size := p.pool.BlockTokens()
	full := seq.computed / size
	seq.parked = seq.computed
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

// unpark takes the partial block again of a sequence that has all full ones before it.
func (p *planning) unpark(seq *sequence) {
	size := p.pool.BlockTokens()
	if seq.parked%size == 0 || seq.computed != seq.parked/size*size {
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
	seq.table, seq.computed = append(seq.table, found[0]), seq.parked
}

// partial is the hash of the block that the last of the parked tokens are in.
func (s *sequence) partial(blockTokens int) kv.Hash {
	parent, full := s.Root, s.parked/blockTokens
	if full > 0 {
		parent = s.hash(full-1, blockTokens)
	}
	return parent.Next(s.tokens[full*blockTokens : s.parked])
}
