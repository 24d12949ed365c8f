package plan

import "math/bits"

// index knows which replicas hold which block. Replicas are numbered slots; the holders of a block are a row of bits. Blocks
// are known by 8 bytes of their hash: two that share them are taken for one, which at worst costs a wrong guess.
//
// Invariant: a row in use has a bit set; one that is not has none.
type index struct {
	rows  map[uint64]int // block -> its row
	block []uint64       // row -> its block
	held  []uint64       // row -> width words: bit s is set while slot s holds the block
	spare []int          // rows not in use
	width int            // words of a row
}

func newIndex() index { return index{rows: make(map[uint64]int), width: 1} }

func (x *index) row(r int) []uint64 { return x.held[r*x.width : (r+1)*x.width] }

// widen makes room for so many slots.
func (x *index) widen(slots int) {
	width := (slots + 63) / 64
	if width <= x.width {
		return
	}
	held := make([]uint64, len(x.block)*width)
	for r := range x.block {
		copy(held[r*width:], x.row(r))
	}
	x.held, x.width = held, width
}

func (x *index) commit(slot int, block uint64) {
	r, ok := x.rows[block]
	if !ok {
		r = x.unused()
		x.rows[block], x.block[r] = r, block
	}
	x.row(r)[slot/64] |= 1 << (slot % 64)
}

func (x *index) unused() int {
	if n := len(x.spare); n > 0 {
		r := x.spare[n-1]
		x.spare = x.spare[:n-1]
		return r
	}
	x.block = append(x.block, 0)
	for range x.width {
		x.held = append(x.held, 0)
	}
	return len(x.block) - 1
}

func (x *index) evict(slot int, block uint64) {
	if r, ok := x.rows[block]; ok {
		x.clear(r, slot)
	}
}

func (x *index) clear(r, slot int) {
	row := x.row(r)
	row[slot/64] &^= 1 << (slot % 64)
	for _, word := range row {
		if word != 0 {
			return
		}
	}
	delete(x.rows, x.block[r])
	x.spare = append(x.spare, r)
}

// drop takes all blocks of a slot away. It looks at every row.
func (x *index) drop(slot int) {
	for r := range x.block {
		if x.row(r)[slot/64]&(1<<(slot%64)) != 0 {
			x.clear(r, slot)
		}
	}
}

// of returns the blocks that a slot holds, in no order. It looks at every row.
func (x *index) of(slot int) (blocks []uint64) {
	for r, block := range x.block {
		if x.row(r)[slot/64]&(1<<(slot%64)) != 0 {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// match writes to depth[s], for each slot s that is set in live, how many of the leading blocks it holds. It walks the
// blocks once for all slots, until none is left, and uses live up.
func (x *index) match(blocks, live []uint64, depth []int) {
	for i, block := range blocks {
		var left uint64
		r, known := x.rows[block]
		for w := range live {
			var held uint64
			if known {
				held = x.held[r*x.width+w]
			}
			settle(live[w]&^held, depth[w*64:], i)
			live[w] &= held
			left |= live[w]
		}
		if left == 0 {
			return
		}
	}
	for w := range live {
		settle(live[w], depth[w*64:], len(blocks))
	}
}

func settle(slots uint64, depth []int, n int) {
	for ; slots != 0; slots &= slots - 1 {
		depth[bits.TrailingZeros64(slots)] = n
	}
}
