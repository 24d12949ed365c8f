package route

import "math/bits"

// index knows which replicas hold which block. Replicas are numbered slots; the holders of a block are a bit each. Blocks
// are known by 8 bytes of their hash: two that share them are taken for one, which at worst costs a wrong guess.
//
// It is a hash table with linear probing, in one piece of memory, so that a block costs one cache miss and not three: a
// decision looks up a hundred of them.
//
// Invariant: a place in use has a bit set; one that is not is all zero. At most half are in use.
type slotIndex struct {
	table []uint64 // places of 1 + width words each: a block, and a bit for each slot
	width int
	mask  int // places less one; they are a power of two
	used  int
}

const initialEntries = 64

func newSlotIndex() slotIndex {
	return slotIndex{table: make([]uint64, initialEntries*2), width: 1, mask: initialEntries - 1}
}

// place is the block at a place and its holders.
func (x *slotIndex) entry(at int) []uint64 {
	size := 1 + x.width
	return x.table[at*size : (at+1)*size : (at+1)*size]
}

// empty reports whether nobody is among the holders.
func noSlots(holders []uint64) bool {
	for _, word := range holders {
		if word != 0 {
			return false
		}
	}
	return true
}

// find returns the place of a block: where it is, or else the empty one where it would be.
func (x *slotIndex) find(block uint64) (at int, p []uint64) {
	for at = int(block) & x.mask; ; at = (at + 1) & x.mask { // a hash is as random as any hash of it
		if p = x.entry(at); p[0] == block || noSlots(p[1:]) {
			return at, p
		}
	}
}

// resize makes a table of so many places for so many words of slots.
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

// widen makes room for so many slots.
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

// clear takes the block at a place away from a slot. Where nobody else holds it, those behind it move up, so that they are
// found without it.
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

// drop takes all blocks of a slot away. It looks at every place, and again where another block moved up to it.
func (x *slotIndex) removeSlot(slot int) {
	for at := range x.mask + 1 {
		for holds(x.entry(at), slot) {
			x.clear(at, slot)
		}
	}
}

// of returns the blocks that a slot holds, in no order. It looks at every place.
func (x *slotIndex) blocks(slot int) (blocks []uint64) {
	for at := range x.mask + 1 {
		if p := x.entry(at); holds(p, slot) {
			blocks = append(blocks, p[0])
		}
	}
	return blocks
}

// match writes to depth[s], for each slot s that is set in live, how many of the leading blocks it holds. It walks the
// blocks once for all slots, until none is left, and uses live up.
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
