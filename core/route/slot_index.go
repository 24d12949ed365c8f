package route

import "math/bits"

// slotIndex records which replicas hold each block. Replicas are numbered slots, and an entry has
// one bit per slot. Blocks are identified by 8 bytes of their hash: two blocks with the same 8
// bytes count as one, which at worst causes a wrong guess.
//
// It is a hash table with linear probing in one allocation, so that a lookup costs one cache miss
// and not three. A decision looks up about a hundred blocks.
//
// Invariant: an entry in use has a bit set, and an unused entry is all zero. At most half of the
// entries are in use.
type slotIndex struct {
	table []uint64 // entries of 1 + width words each: a block, and a bit per slot
	width int
	mask  int // number of entries minus one; the number is a power of two
	used  int
}

const initialEntries = 64

func newSlotIndex() slotIndex {
	return slotIndex{table: make([]uint64, initialEntries*2), width: 1, mask: initialEntries - 1}
}

// entry returns the block and the slot bits at an index of the table.
func (x *slotIndex) entry(at int) []uint64 {
	size := 1 + x.width
	return x.table[at*size : (at+1)*size : (at+1)*size]
}

// noSlots reports whether no bit is set.
func noSlots(holders []uint64) bool {
	for _, word := range holders {
		if word != 0 {
			return false
		}
	}
	return true
}

// find returns the entry of a block, or the empty entry where it would be inserted.
func (x *slotIndex) find(block uint64) (at int, p []uint64) {
	for at = int(block) & x.mask; ; at = (at + 1) & x.mask { // the block is a hash already
		if p = x.entry(at); p[0] == block || noSlots(p[1:]) {
			return at, p
		}
	}
}

// resize rebuilds the table with the given number of entries and words of slots.
func (x *slotIndex) resize(places, width int) {
	old := *x
	x.table, x.width, x.mask = make([]uint64, places*(1+width)), width, places-1
	for at := range old.mask + 1 {
		if p := old.entry(at); !noSlots(p[1:]) {
			_, to := x.find(p[0])
			copy(to, p)
		}
	}
}

// growSlots makes room for the given number of slots.
func (x *slotIndex) growSlots(slots int) {
	if width := (slots + 63) / 64; width > x.width {
		x.resize(x.mask+1, width)
	}
}

func (x *slotIndex) add(slot int, block uint64) {
	_, p := x.find(block)
	if noSlots(p[1:]) {
		if 2*x.used > x.mask {
			x.resize(2*(x.mask+1), x.width)
			_, p = x.find(block)
		}
		x.used++
		p[0] = block
	}
	p[1+slot/64] |= 1 << (slot % 64)
}

func (x *slotIndex) remove(slot int, block uint64) {
	if at, p := x.find(block); holds(p, slot) {
		x.clear(at, slot)
	}
}

func holds(p []uint64, slot int) bool { return p[1+slot/64]&(1<<(slot%64)) != 0 }

// clear removes a slot from the entry at an index. If no slot is left, it deletes the entry and
// moves later entries up, so that they are still found.
func (x *slotIndex) clear(at, slot int) {
	p := x.entry(at)
	if p[1+slot/64] &^= 1 << (slot % 64); !noSlots(p[1:]) {
		return
	}
	x.used--
	for next := (at + 1) & x.mask; !noSlots(x.entry(next)[1:]); next = (next + 1) & x.mask {
		if home := int(x.entry(next)[0]) & x.mask; (next-home)&x.mask >= (next-at)&x.mask {
			copy(x.entry(at), x.entry(next))
			at = next
		}
	}
	clear(x.entry(at))
}

// removeSlot removes a slot from all entries. It scans the table, and looks at an index again if
// another entry moved there.
func (x *slotIndex) removeSlot(slot int) {
	for at := range x.mask + 1 {
		for holds(x.entry(at), slot) {
			x.clear(at, slot)
		}
	}
}

// blocks returns the blocks of a slot, in no particular order. It scans the table.
func (x *slotIndex) blocks(slot int) (blocks []uint64) {
	for at := range x.mask + 1 {
		if p := x.entry(at); holds(p, slot) {
			blocks = append(blocks, p[0])
		}
	}
	return blocks
}

// match sets depth[s] to the number of leading blocks that slot s holds, for each slot s with a bit
// in live. It walks the blocks once for all slots until none is left, and clears live.
func (x *slotIndex) match(blocks, live []uint64, depth []int) {
	for i, block := range blocks {
		_, p := x.find(block)
		var left uint64
		for w, held := range p[1:] {
			setDepth(live[w]&^held, depth[w*64:], i)
			live[w] &= held
			left |= live[w]
		}
		if left == 0 {
			return
		}
	}
	for w := range live {
		setDepth(live[w], depth[w*64:], len(blocks))
	}
}

func setDepth(slots uint64, depth []int, n int) {
	for ; slots != 0; slots &= slots - 1 {
		depth[bits.TrailingZeros64(slots)] = n
	}
}
