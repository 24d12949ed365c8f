package kv

import "slices"

// Resize makes the pool so many blocks large. Blocks beyond that are evicted; those that somebody reads stay until they are
// released, and are shared with nobody new meanwhile: the memory of a block may be taken away once it is not among Leaving's.
func (p *Pool) Resize(blocks int) {
	for index := int32(blocks); int(index) < min(p.size, len(p.blocks)); index++ {
		if b := &p.blocks[index]; b.committed {
			if b.refs == 0 {
				p.uncache(index)
			}
			p.forget(index)
		}
	}
	p.empty = slices.DeleteFunc(p.empty, func(index int32) bool { return int(index) >= blocks })
	for index := p.size; index < blocks; index++ {
		if index == len(p.blocks) {
			p.blocks = append(p.blocks, block{})
		}
		if p.blocks[index].refs == 0 {
			p.empty = append(p.empty, int32(index))
		}
	}
	p.size = blocks
	p.trim()
}

// Leaving is how many blocks beyond the pool's size are read still, and the end of the last of them: memory from there on is free.
func (p *Pool) Leaving() (blocks, end int) {
	for index := p.size; index < len(p.blocks); index++ {
		if p.blocks[index].refs > 0 {
			blocks++
		}
	}
	return blocks, max(p.size, len(p.blocks))
}

// trim forgets the blocks at the end that nobody reads any more.
func (p *Pool) trim() {
	for len(p.blocks) > p.size && p.blocks[len(p.blocks)-1].refs == 0 {
		p.blocks = p.blocks[:len(p.blocks)-1]
	}
}
