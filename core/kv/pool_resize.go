package kv

import "slices"

// Resize sets the number of blocks. Blocks beyond it are evicted. Those with readers stay until
// they are released, and are not shared with further sequences. The caller may free the memory of a
// block once it lies beyond the end that Draining returns.
func (p *Pool) Resize(blocks int) {
	for index := int32(blocks); int(index) < min(p.size, len(p.blocks)); index++ {
		if b := &p.blocks[index]; b.committed {
			if b.refs == 0 {
				p.uncache(index)
			}
			p.dropHash(index)
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

// Draining returns how many blocks beyond the pool's size still have readers, and the end of the
// last one. Memory from that index on is unused.
func (p *Pool) Draining() (blocks, end int) {
	for index := p.size; index < len(p.blocks); index++ {
		if p.blocks[index].refs > 0 {
			blocks++
		}
	}
	return blocks, max(p.size, len(p.blocks))
}

// trim removes the draining blocks at the end that have no readers.
func (p *Pool) trim() {
	for len(p.blocks) > p.size && p.blocks[len(p.blocks)-1].refs == 0 {
		p.blocks = p.blocks[:len(p.blocks)-1]
	}
}
