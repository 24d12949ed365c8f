package kv

// SlotUnit is the granularity of slot sizes in bytes: disks are read and written in multiples of
// it.
const SlotUnit = 4096

// Slabs is the layout of a tier: slabs of equal size. A slab is assigned to one block size at a
// time and is then a row of slots for such blocks. Slots are numbered by slab, so a slot number has
// the same meaning whatever size its slab is assigned to.
type Slabs struct {
	Count      int // number of slabs
	Bytes      int // of each slab; a multiple of SlotUnit
	SlabHeader int // bytes in front of a slab's slots; a multiple of SlotUnit
	SlotHeader int // bytes in front of a slot's block; a multiple of SlotUnit
}

// CutSlabs divides a tier of the given size into slabs. In a small tier they are small enough for
// several block sizes to share it. In a large one they are large enough to waste little at their
// ends: they fit 64 MiB of blocks with the headers.
func CutSlabs(bytes int64) Slabs {
	const (
		share = 8 // slabs in a small tier, at least
		most  = 65 << 20
	)
	s := Slabs{Bytes: int(min(bytes/share, most)) / SlotUnit * SlotUnit}
	if s.Bytes > 0 {
		s.Count = int(bytes / int64(s.Bytes))
	}
	return s
}

// Fit returns the number of slots in a slab for blocks of a size in bytes. It is 0 if the blocks
// are too large.
func (s Slabs) Fit(block int) int {
	if block <= 0 || block > s.Largest() {
		return 0
	}
	return (s.Bytes - s.SlabHeader) / s.stride(block)
}

// Largest returns the size of the largest block that fits, in bytes.
func (s Slabs) Largest() int { return max(0, s.Bytes-s.SlabHeader-s.SlotHeader) }

// Capacity returns the size of all slabs in bytes.
func (s Slabs) Capacity() int64 { return int64(s.Count) * int64(s.Bytes) }

// Slot returns the number of a slab's i-th slot.
func (s Slabs) Slot(slab, i int) int32 { return int32(slab*s.slotNumbers() + i) }

// Locate returns the slab of a slot, and the index of the slot in it.
func (s Slabs) Locate(slot int32) (slab, i int) {
	return int(slot) / s.slotNumbers(), int(slot) % s.slotNumbers()
}

// Has reports whether the slot exists for blocks of a size.
func (s Slabs) Has(slot int32, block int) bool {
	if slot < 0 || s.Count == 0 {
		return false
	}
	slab, i := s.Locate(slot)
	return slab < s.Count && i < s.Fit(block)
}

// Offset returns where a slot for blocks of a size starts, in bytes from the start of the first
// slab.
func (s Slabs) Offset(slot int32, block int) int64 {
	slab, i := s.Locate(slot)
	return int64(slab)*int64(s.Bytes) + int64(s.SlabHeader+i*s.stride(block))
}

// slotNumbers returns the number of slot numbers per slab, which is the most slots that it could
// have.
func (s Slabs) slotNumbers() int { return s.Bytes / SlotUnit }

// stride returns the distance between two slots in bytes.
func (s Slabs) stride(block int) int { return s.SlotHeader + (block+SlotUnit-1)/SlotUnit*SlotUnit }
