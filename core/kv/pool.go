package kv

// Pool tracks a replica's KV blocks in HBM. It is not safe for concurrent use.
type Pool struct {
	blockTokens int
	blocks      []block
	size        int            // blocks with a higher index are draining
	byHash      map[Hash]int32 // committed blocks
	empty       []int32        // blocks that hold nothing; a stack
	cached      blockList      // committed and unreferenced, least recently used first
	pinned      blockList      // likewise, of pinned blocks
	pins        map[Hash]bool
	step        uint64 // number of calls of Tick

	stats     Stats
	evicted   []int32 // since the last Changes
	committed []Committed

	offloading   int // blocks being copied to a lower tier
	backedCached int // blocks in cached that a lower tier has too
}

type block struct {
	refs         int
	hash         Hash
	committed    bool
	offloading   bool   // being copied to a lower tier; the copy holds one reference
	reused       bool   // referenced since the offload began
	backed       bool   // committed, and a lower tier has it too
	pinned       bool   // which list it is in: pinned, else cached
	releasedStep uint64 // step at which it entered a list
	prev, next   int32  // neighbours in its list
}

// Committed is a block whose content is identified by a hash.
type Committed struct {
	Block int32
	Hash  Hash
}

// Stats describe a pool.
type Stats struct {
	Blocks, Free, Cached int
	Hits, Misses         uint64 // full blocks looked up by hash
	Allocations          uint64
	Evictions            uint64
}

// NewPool returns a pool of empty blocks that hold blockTokens tokens each.
func NewPool(blocks, blockTokens int) *Pool {
	p := &Pool{
		blockTokens: blockTokens, blocks: make([]block, blocks), size: blocks, byHash: make(map[Hash]int32, blocks),
		empty: make([]int32, blocks), cached: blockList{first: none, last: none},
		pinned: blockList{first: none, last: none},
	}
	for i := range p.empty {
		p.empty[i] = int32(blocks - 1 - i) // block 0 is given out first
	}
	return p
}

// BlockTokens returns the number of tokens per block.
func (p *Pool) BlockTokens() int { return p.blockTokens }

// Recover adopts the content that an earlier incarnation left in an empty block. It reports false
// and does nothing if the block is not empty or does not exist, or if another block holds h.
func (p *Pool) Recover(index int32, h Hash) bool {
	if index < 0 || int(index) >= len(p.blocks) {
		return false
	}
	if _, held := p.byHash[h]; held {
		return false
	}
	for i, e := range p.empty {
		if e == index {
			p.empty = append(p.empty[:i], p.empty[i+1:]...)
			p.blocks[index].hash, p.blocks[index].committed = h, true
			p.byHash[h] = index
			p.cache(index)
			return true
		}
	}
	return false
}

// Match returns how many of the leading hashes the pool holds.
func (p *Pool) Match(hashes []Hash) int {
	for i, h := range hashes {
		if _, ok := p.byHash[h]; !ok {
			return i
		}
	}
	return len(hashes)
}

// Acquire references the blocks of the longest prefix that the pool holds and returns them in
// order.
func (p *Pool) Acquire(hashes []Hash) []int32 {
	n := p.Match(hashes)
	p.stats.Hits += uint64(n)
	p.stats.Misses += uint64(len(hashes) - n)
	table := make([]int32, n, max(n, len(hashes)+1))
	for i, h := range hashes[:n] {
		index := p.byHash[h]
		p.reference(index)
		table[i] = index
	}
	return table
}

// Retain adds one reference to each block of a referenced table. The content then stays until
// Release, even if the owner of the table releases it.
func (p *Pool) Retain(table []int32) {
	for _, index := range table {
		if p.blocks[index].refs == 0 {
			panic("kv: retain of an unreferenced block")
		}
		p.blocks[index].refs++
	}
}

func (p *Pool) reference(index int32) {
	b := &p.blocks[index]
	if b.refs == 0 {
		p.uncache(index)
	}
	b.reused = true
	b.refs++
}

// Allocate returns a block to write to, with one reference. It takes an empty block, else it evicts
// the least recently used cached one; pinned blocks are evicted last. It reports false if every
// block is referenced.
func (p *Pool) Allocate() (int32, bool) {
	var index int32
	switch {
	case len(p.empty) > 0:
		index = p.empty[len(p.empty)-1]
		p.empty = p.empty[:len(p.empty)-1]
	case p.cached.first != none || p.pinned.first != none:
		if index = p.cached.first; index == none {
			index = p.pinned.first
		}
		p.uncache(index)
		p.dropHash(index)
	default:
		return 0, false
	}
	p.blocks[index].refs = 1
	p.stats.Allocations++
	return index, true
}

// dropHash forgets the content of a committed block and counts an eviction.
func (p *Pool) dropHash(index int32) {
	b := &p.blocks[index]
	delete(p.byHash, b.hash)
	b.committed, b.backed = false, false
	p.stats.Evictions++
	p.evicted = append(p.evicted, index)
}

// Commit marks a referenced block as full with content h, so that other sequences can share it. If
// another block holds h already, this one stays private.
func (p *Pool) Commit(index int32, h Hash) {
	b := &p.blocks[index]
	if b.refs == 0 {
		panic("kv: commit of an unreferenced block")
	}
	if _, held := p.byHash[h]; held || b.committed || int(index) >= p.size {
		return
	}
	b.hash, b.committed = h, true
	p.byHash[h] = index
	p.committed = append(p.committed, Committed{index, h})
}

// Release drops one reference of each block. Committed blocks stay cached. The last block of the
// table is evicted first, since the earlier blocks are useful without it, but not the reverse.
func (p *Pool) Release(table []int32) {
	for i := len(table) - 1; i >= 0; i-- {
		b := &p.blocks[table[i]]
		if b.refs == 0 {
			panic("kv: release of an unreferenced block")
		}
		if b.refs--; b.refs > 0 {
			continue
		}
		switch {
		case b.committed:
			p.cache(table[i])
		case int(table[i]) < p.size:
			p.empty = append(p.empty, table[i])
		}
	}
	p.trim()
}

// Free returns the number of blocks that Allocate could return.
func (p *Pool) Free() int { return len(p.empty) + p.cached.len + p.pinned.len }

// FreeWithout returns the number of blocks left to allocate after Acquire of these hashes: Free
// less the cached blocks among the leading hashes that the pool holds.
func (p *Pool) FreeWithout(hashes []Hash) int {
	free := p.Free()
	for _, h := range hashes[:p.Match(hashes)] {
		if p.blocks[p.byHash[h]].refs == 0 {
			free--
		}
	}
	return free
}

// Stats returns the current statistics.
func (p *Pool) Stats() Stats {
	s := p.stats
	s.Blocks, s.Free, s.Cached = p.size, p.Free(), p.cached.len+p.pinned.len
	return s
}

// Changes returns the blocks that were evicted and committed since the last call. For a block in
// both lists, committed has the current content.
func (p *Pool) Changes() (evicted []int32, committed []Committed) {
	evicted = p.evicted
	for _, c := range p.committed {
		if int(c.Block) >= len(p.blocks) {
			continue // drained since
		}
		if b := p.blocks[c.Block]; b.committed && b.hash == c.Hash {
			committed = append(committed, c)
		}
	}
	p.evicted, p.committed = nil, nil
	return evicted, committed
}
