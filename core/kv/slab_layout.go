package kv

// SlotUnit is what a slot's bytes are a multiple of: a disk is read and written in these.
const SlotUnit = 4096

// Slabs is how the room of a tier is cut: into slabs of equal size. A slab is given to one size of block at a time, and then is a row of
// slots for such blocks. Slots are numbered by slab, so that a number means the same whatever size the slab is given to.
type Slabs struct {
	Count int // of slabs
	Bytes int // of each; a multiple of SlotUnit
	Lead  int // bytes of a slab in front of its slots; likewise
	Head  int // bytes of a slot in front of its block; likewise
}

// CutSlabs cuts so many bytes into slabs that are small enough for several sizes of block to share a small tier, and large enough to
// lose little at their ends in a large one: those have room for 64 MiB of blocks, and for what is in front of these.
func CutSlabs(bytes int64) Slabs {
	const (
		share = 8 // of a small tier
		most  = 65 << 20
	)
	s := Slabs{Bytes: int(min(bytes/share, most)) / SlotUnit * SlotUnit}
	if s.Bytes > 0 {
		s.Count = int(bytes / int64(s.Bytes))
	}
	return s
}

// Fit is how many slots a slab has for blocks of a size; 0 where they are too large.
func (s Slabs) Fit(block int) int {
	if block <= 0 || block > s.Largest() {
		return 0
	}
	return (s.Bytes - s.Lead) / s.stride(block)
}

// Largest is the size of the largest block that fits.
func (s Slabs) Largest() int { return max(0, s.Bytes-s.Lead-s.Head) }

// Capacity is the size of all slabs in bytes.
func (s Slabs) Capacity() int64 { return int64(s.Count) * int64(s.Bytes) }

// Slot is the number of a slab's i-th slot.
func (s Slabs) Slot(slab, i int) int32 { return int32(slab*s.numbers() + i) }

// Of is which slab a slot is in, and which of its slots it is.
func (s Slabs) Of(slot int32) (slab, i int) { return int(slot) / s.numbers(), int(slot) % s.numbers() }

// Has reports whether there is such a slot for blocks of a size.
func (s Slabs) Has(slot int32, block int) bool {
	if slot < 0 || s.Count == 0 {
		return false
	}
	slab, i := s.Of(slot)
	return slab < s.Count && i < s.Fit(block)
}

// At is where a slot for blocks of a size begins, in bytes from the first slab's beginning.
func (s Slabs) At(slot int32, block int) int64 {
	slab, i := s.Of(slot)
	return int64(slab)*int64(s.Bytes) + int64(s.Lead+i*s.stride(block))
}

// numbers is how many slot numbers a slab has: as many as it could have slots.
func (s Slabs) numbers() int { return s.Bytes / SlotUnit }

// stride is the distance of two slots.
func (s Slabs) stride(block int) int { return s.Head + (block+SlotUnit-1)/SlotUnit*SlotUnit }
