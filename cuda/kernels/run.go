package kernels

import (
	"fmt"
	"math"
	"unsafe"

	"troupe/cuda"
)

// Memory resolves addresses of a device whose memory the process can access.
type Memory interface {
	// Bytes returns n bytes from p on. It panics if they are not all in one allocation.
	Bytes(p cuda.Ptr, n int64) []byte
	// Prefix returns the bytes from p on up to the first one without memory, at most n.
	Prefix(p cuda.Ptr, n int64) []byte
}

// Workers splits work: it calls work on ranges that cover [0, n), possibly concurrently, and
// returns when all are done. cost is the work per index, in multiply-adds; small work is not split.
type Workers func(n int, cost int64, work func(lo, hi int))

// Known reports whether Run can execute op.
func Known(op cuda.Op) bool {
	switch op.(type) {
	case Embed, RMSNorm, MatMul, SplitRows, JoinRows, Rope, StoreKV, Attention, SiluMul, GatherRows,
		GatherBlocks, ScatterBlocks, TopK, LoRAShrink, LoRAExpand:
		return true
	}
	return false
}

// Run executes one launch of a known op. It panics on bad arguments.
func Run(mem Memory, workers Workers, op cuda.Op) {
	m := machine{mem, workers}
	switch op := op.(type) {
	case Embed:
		m.embed(op)
	case RMSNorm:
		m.rmsNorm(op)
	case MatMul:
		m.matMul(op)
	case SplitRows:
		m.splitRows(op)
	case JoinRows:
		m.joinRows(op)
	case Rope:
		m.rope(op)
	case StoreKV:
		m.storeKV(op)
	case Attention:
		m.attention(op)
	case SiluMul:
		m.siluMul(op)
	case GatherRows:
		m.gatherRows(op)
	case GatherBlocks:
		m.gatherBlocks(op)
	case ScatterBlocks:
		m.scatterBlocks(op)
	case TopK:
		m.topK(op)
	case LoRAShrink:
		m.shrink(op)
	case LoRAExpand:
		m.expand(op)
	default:
		panic("unknown kernel " + op.Kernel())
	}
}

type machine struct {
	mem     Memory
	workers Workers
}

func (m machine) f32(p cuda.Ptr, n int) []float32 { return view[float32](m.mem, p, n) }
func (m machine) i32(p cuda.Ptr, n int) []int32   { return view[int32](m.mem, p, n) }
func (m machine) i64(p cuda.Ptr, n int) []int64   { return view[int64](m.mem, p, n) }
func (m machine) u16(p cuda.Ptr, n int) []uint16  { return view[uint16](m.mem, p, n) }

func (m machine) ptrs(p cuda.Ptr, n int) []cuda.Ptr { return view[cuda.Ptr](m.mem, p, n) }

func view[T any](mem Memory, p cuda.Ptr, n int) []T {
	var t T
	size := int64(unsafe.Sizeof(t))
	switch {
	case n == 0:
		return nil
	case n < 0 || int64(n) > math.MaxInt64/size:
		panic(fmt.Sprintf("array of %d elements", n))
	case int64(p)%size != 0:
		panic(fmt.Sprintf("misaligned address %#x", uint64(p)))
	}
	b := mem.Bytes(p, int64(n)*size)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// index checks a value that was read from device memory.
func index(what string, i, n int32) int {
	if i < 0 || i >= n {
		panic(fmt.Sprintf("%s %d is outside [0, %d)", what, i, n))
	}
	return int(i)
}
