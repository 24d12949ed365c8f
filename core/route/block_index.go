package route

import "slices"

// BlockIndex records which KV blocks each named holder has, such as the tiers of nodes. It is not
// safe for concurrent use.
type BlockIndex struct {
	names []string // by slot; empty: the slot is free
	index slotIndex
}

// NewBlockIndex returns an empty BlockIndex.
func NewBlockIndex() *BlockIndex { return &BlockIndex{index: newSlotIndex()} }

// Update applies the changes in a holder's blocks, evictions first.
func (h *BlockIndex) Update(name string, evicted, committed []uint64) {
	slot := slices.Index(h.names, name)
	if slot < 0 {
		if slot = slices.Index(h.names, ""); slot < 0 {
			slot = len(h.names)
			h.names = append(h.names, "")
			h.index.growSlots(len(h.names))
		}
		h.names[slot] = name
	}
	for _, b := range evicted {
		h.index.remove(slot, b)
	}
	for _, b := range committed {
		h.index.add(slot, b)
	}
}

// Remove deletes a holder and its blocks.
func (h *BlockIndex) Remove(name string) {
	if slot := slices.Index(h.names, name); slot >= 0 {
		h.names[slot] = ""
		h.index.removeSlot(slot)
	}
}

// BlocksOf returns the blocks of a holder, in no particular order.
func (h *BlockIndex) BlocksOf(name string) []uint64 {
	if slot := slices.Index(h.names, name); slot >= 0 {
		return h.index.blocks(slot)
	}
	return nil
}

// LongestPrefix returns the holder of the most leading blocks and their number. Only holders for
// which may returns true count. A hash of asker breaks ties, so that different callers choose
// different holders.
func (h *BlockIndex) LongestPrefix(blocks []uint64, asker string, may func(name string) bool) (name string, n int) {
	slot, n := h.index.longestPrefix(blocks, len(h.names), hashOf(asker), func(slot int) bool {
		return h.names[slot] != "" && may(h.names[slot])
	})
	if n == 0 {
		return "", 0
	}
	return h.names[slot], n
}

// LongestPrefix returns the replica that holds the most leading blocks and their number; see
// BlockIndex.LongestPrefix.
func (t *Routes) LongestPrefix(blocks []uint64, asker string, may func(name string) bool) (name string, n int) {
	slot, n := t.index.longestPrefix(blocks, len(t.slots), hashOf(asker), func(slot int) bool {
		return t.slots[slot].used && may(t.slots[slot].Name)
	})
	if n == 0 {
		return "", 0
	}
	return t.slots[slot].Name, n
}

// longestPrefix returns the slot that holds the most leading blocks, of those for which may returns
// true.
func (x *slotIndex) longestPrefix(blocks []uint64, slots int, salt uint64, may func(slot int) bool) (slot, n int) {
	live, depth := make([]uint64, x.width), make([]int, 64*x.width)
	for s := range slots {
		if may(s) {
			live[s/64] |= 1 << (s % 64)
		}
	}
	x.match(blocks, live, depth)
	for s, d := range depth {
		if d > n || d == n && n > 0 && mix(salt^uint64(s)) < mix(salt^uint64(slot)) {
			slot, n = s, d
		}
	}
	return slot, n
}
