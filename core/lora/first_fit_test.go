package lora

import "slices"

// FirstFit allocates contiguous byte ranges, each from the first hole that is large enough. It is
// only the baseline that Pages is measured against. It is not safe for concurrent use.
type FirstFit struct {
	total int64
	used  []Extent // by offset
}

// NewFirstFit returns an allocator with the given number of free bytes.
func NewFirstFit(bytes int64) *FirstFit { return &FirstFit{total: bytes} }

// Allocate returns the offset of a free range. It reports false if no hole is large enough.
func (f *FirstFit) Allocate(bytes int64) (int64, bool) {
	at := int64(0)
	for i, e := range f.used {
		if e.Offset-at >= bytes {
			f.used = slices.Insert(f.used, i, Extent{at, bytes})
			return at, true
		}
		at = e.Offset + e.Bytes
	}
	if f.total-at < bytes {
		return 0, false
	}
	f.used = append(f.used, Extent{at, bytes})
	return at, true
}

// Free releases the range at an offset.
func (f *FirstFit) Free(offset int64) {
	f.used = slices.DeleteFunc(f.used, func(e Extent) bool { return e.Offset == offset })
}

// Holes returns the number of free bytes and the size of the largest hole.
func (f *FirstFit) Holes() (free, largest int64) {
	at := int64(0)
	for _, e := range append(slices.Clip(f.used), Extent{f.total, 0}) {
		free += e.Offset - at
		largest = max(largest, e.Offset-at)
		at = e.Offset + e.Bytes
	}
	return free, largest
}
