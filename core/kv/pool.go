package kv

// Pool keeps account of a replica's blocks. It is not safe for concurrent use.
type Pool struct {
	blockTokens int
	blocks      []block
	size        int            // blocks with a higher index are on their way out
	byHash      map[Hash]int32 // committed blocks
	empty       []int32        // blocks that hold nothing, a stack
	cached      list           // committed and unreferenced, least recently used first
	kept        list           // likewise, of those that are pinned
	pins        map[Hash]bool
	step        uint64 // how often Tick was called

	stats     Stats
	evicted   []int32 // since the last Changes
	committed []Committed

	departing, spare int // blocks being copied down a tier; those in cached that are below too
}

type block struct {
	refs       int
	hash       Hash
	committed  bool
	departing  bool   // being copied down a tier, which is one of refs
	wanted     bool   // since it departs
	below      bool   // committed, and a lower tier has it too
	pinned     bool   // it is in kept, while it is in one of the lists
	released   uint64 // the step in which it came into a list
	prev, next int32  // neighbours in the cached list, while it is in it
}

// Committed is a block whose content is known.
type Committed struct {
	Block int32
	Hash  Hash
}

// Stats describe a pool.
type Stats struct {
	Blocks, Free, Cached int
	Hits, Misses         uint64 // full blocks that were asked for by hash
	Allocations          uint64
	Evictions            uint64
}

// NewPool returns a pool of empty blocks of blockTokens tokens each.
func NewPool(blocks, blockTokens int) *Pool {
	p := &Pool{
		blockTokens: blockTokens, blocks: make([]block, blocks), size: blocks, byHash: make(map[Hash]int32, blocks),
		empty: make([]int32, blocks), cached: list{first: none, last: none}, kept: list{first: none, last: none},
	}
	for i := range p.empty {
		p.empty[i] = int32(blocks - 1 - i) // block 0 is given out first
	}
	return p
}

// BlockTokens is how many tokens a block holds.
func (p *Pool) BlockTokens() int { return p.blockTokens }

// Restore says that an empty block holds the content of h: what a predecessor left behind. It reports false, and does
// nothing, where the block is not empty, does not exist, or h is held by another.
func (p *Pool) Restore(index int32, h Hash) bool {
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

// Match returns how many of the leading hashes are resident.
func (p *Pool) Match(hashes []Hash) int {
	for i, h := range hashes {
		if _, ok := p.byHash[h]; !ok {
			return i
		}
	}
	return len(hashes)
}

// Acquire references the blocks of the longest resident prefix and returns them, in order.
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

// Retain adds one reference to each block of a table that somebody holds, so that what is in them stays until Release,
// whatever becomes of their owner.
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
	b.wanted = true
	b.refs++
}

// Allocate returns a block to write to, referenced once: an empty one, else the least recently used cached one,
// which is evicted: one that is pinned only where there is no other. It reports false where every block is referenced.
func (p *Pool) Allocate() (int32, bool) {
	var index int32
	switch {
	case len(p.empty) > 0:
		index = p.empty[len(p.empty)-1]
		p.empty = p.empty[:len(p.empty)-1]
	case p.cached.first != none || p.kept.first != none:
		if index = p.cached.first; index == none {
			index = p.kept.first
		}
		p.uncache(index)
		p.forget(index)
	default:
		return 0, false
	}
	p.blocks[index].refs = 1
	p.stats.Allocations++
	return index, true
}

// forget takes a committed block's hash away.
func (p *Pool) forget(index int32) {
	b := &p.blocks[index]
	delete(p.byHash, b.hash)
	b.committed, b.below = false, false
	p.stats.Evictions++
	p.evicted = append(p.evicted, index)
}

// Commit says that a referenced block is full and holds the content of h, so that others may share it. Where another
// block holds h already, this one stays private.
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

// Release drops one reference to each block. Committed ones stay cached; of these the last of the table is evicted
// first, since the others are of use without it but not the other way round.
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

// Free is how many blocks Allocate could give out.
func (p *Pool) Free() int { return len(p.empty) + p.cached.len + p.kept.len }

// FreeWithout is Free less those of the leading resident hashes that are cached: what would be left to allocate after
// Acquire.
func (p *Pool) FreeWithout(hashes []Hash) int {
	free := p.Free()
	for _, h := range hashes[:p.Match(hashes)] {
		if p.blocks[p.byHash[h]].refs == 0 {
			free--
		}
	}
	return free
}

// Stats describes the pool.
func (p *Pool) Stats() Stats {
	s := p.stats
	s.Blocks, s.Free, s.Cached = p.size, p.Free(), p.cached.len+p.kept.len
	return s
}

// Changes returns what was evicted and what was committed since the last call. A block that was both is in the list that
// tells what it holds now.
func (p *Pool) Changes() (evicted []int32, committed []Committed) {
	evicted = p.evicted
	for _, c := range p.committed {
		if int(c.Block) >= len(p.blocks) {
			continue // it is gone
		}
		if b := p.blocks[c.Block]; b.committed && b.hash == c.Hash {
			committed = append(committed, c)
		}
	}
	p.evicted, p.committed = nil, nil
	return evicted, committed
}
