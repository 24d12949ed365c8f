package bulk

import (
	"math/bits"
	"sync"
)

// buffers pools memory between transfers, in classes by power of two. Fresh memory costs as much as
// a copy.
type buffers struct{ classes [bits.UintSize]sync.Pool }

// get returns a buffer of at least n bytes with arbitrary content.
func (b *buffers) get(n int) []byte {
	if kept, ok := b.classes[bits.Len(uint(n-1))].Get().(*[]byte); ok && len(*kept) >= n {
		return *kept
	}
	return make([]byte, n)
}

func (b *buffers) put(buf []byte) { b.classes[bits.Len(uint(len(buf)-1))].Put(&buf) }
