package engine

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"

	"troupe/core/hbm"
	"troupe/core/lora"
	"troupe/modelfile/digest"
)

// AdapterCopy is an adapter in host memory. Its content has the layout of the device, so that a load
// from it is plain copies. It is immutable.
type AdapterCopy struct {
	File   AdapterFile
	Digest string   // of the content and its description
	Sums   []uint64 // checksums (XXH3) of the content, page by page
}

// NewAdapterCopy describes the content of a file.
func NewAdapterCopy(file AdapterFile, content []byte) *AdapterCopy {
	c := &AdapterCopy{File: file, Digest: file.digest(content)}
	for page := range slices.Chunk(content, hbm.PageBytes) {
		c.Sums = append(c.Sums, xxh3.Hash(page))
	}
	return c
}

// digest identifies what an adapter does: its content, where its matrices are in there, its rank and
// its scale.
func (f AdapterFile) digest(content []byte) string {
	h := blake3.New()
	write := func(n int64) { _, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) } // never fails
	write(int64(f.Rank))
	write(int64(math.Float32bits(f.Scale)))
	type placed struct {
		lora.Matrix
		lora.Extent
	}
	var all []placed
	for m, e := range f.Layout.All() {
		all = append(all, placed{m, e})
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, p := range all {
		for _, n := range []int64{int64(p.Layer), int64(p.Target), int64(p.Part), p.Offset, p.Bytes} {
			write(n)
		}
	}
	_, _ = h.Write(content)
	var sum digest.Sum
	h.Sum(sum[:0])
	return sum.String()
}
