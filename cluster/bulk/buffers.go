package bulk

import (
	"math/bits"
	"sync"
)

// buffers are kept from one transfer to the next, in classes by the power of two that they fit in: fresh memory costs as much as a
// copy.
type buffers struct{ classes [bits.UintSize]sync.Pool }

// get returns a buffer of n bytes or more, of any content.
func (b *buffers) get(n int) []byte {
	if kept, ok := b.classes[bits.Len(uint(n-1))].Get().(*[]byte); ok && len(*kept) >= n {
		return *kept
	}
	return make([]byte, n)
}

func (b *buffers) put(buf []byte) { b.classes[bits.Len(uint(len(buf)-1))].Put(&buf) }
