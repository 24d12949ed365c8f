package lora

import "slices"

// FirstFit gives out contiguous ranges of bytes, each from the first hole that is large enough. It is the yardstick for
// Pages, and serves nobody. It is not safe for concurrent use.
type FirstFit struct {
	total int64
	used  []Extent // by offset
}

// NewFirstFit returns an empty range.
func NewFirstFit(bytes int64) *FirstFit { return &FirstFit{total: bytes} }

// Allocate returns the offset of bytes, or reports false where no hole is large enough.
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

// Free gives the range at an offset back.
func (f *FirstFit) Free(offset int64) {
	f.used = slices.DeleteFunc(f.used, func(e Extent) bool { return e.Offset == offset })
}

// Holes returns how many bytes are free, and how many of them the largest hole has.
func (f *FirstFit) Holes() (free, largest int64) {
	at := int64(0)
	for _, e := range append(slices.Clip(f.used), Extent{f.total, 0}) {
		free += e.Offset - at
		largest = max(largest, e.Offset-at)
		at = e.Offset + e.Bytes
	}
	return free, largest
}
