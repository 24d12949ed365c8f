package cudatest

import (
	"errors"
	"math"
	"testing"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// badArguments: missing, short or misaligned arrays are faults.
func badArguments(t *testing.T, d cuda.Device) {
	b := newBad(t, d)
	outside, overlong := b.look(0, 0, 0), b.look(0, 0, 999)
	outside.KV.ValueOffset = 4 * 3 * dim
	overlong.KV.Blocks = 1000
	b.faults(map[string]cuda.Op{
		"weights too short": kernels.MatMul{Out: b.big, In: b.small, Weight: b.small, M: 1, N: 2, K: dim},
		"output too short":  kernels.MatMul{Out: b.small, In: b.small, Weight: b.big, M: 1, N: dim + 1, K: dim},
		"weights of integers": kernels.MatMul{
			Out:    b.small,
			In:     b.small,
			Weight: b.big,
			M:      1,
			N:      1,
			K:      dim,
			DType:  cuda.I32,
		},
		"negative size":         kernels.SiluMul{Out: b.small, Gate: b.small, Up: b.small, N: -1},
		"null":                  kernels.RMSNorm{Out: b.small, In: b.small, N: 1, Dim: dim},
		"misaligned":            kernels.RMSNorm{Out: b.small, In: b.big + 2, Weight: b.small, N: 1, Dim: dim},
		"row past the tables":   b.look(1, 0, 0),
		"values past the block": outside,
		"block without memory":  overlong,
		"blocks of half elements": kernels.GatherBlocks{
			Out:         b.small,
			Arena:       b.big,
			Blocks:      b.ints(0),
			BlockBytes:  6,
			N:           1,
			ArenaBlocks: 4,
		},
	})
}

// badIndices: a kernel with an index outside device memory is a fault and has no other effect.
func badIndices(t *testing.T, d cuda.Device) {
	b := newBad(t, d)
	b.faults(map[string]cuda.Op{
		"token past the vocabulary": kernels.Embed{
			Out:    b.small,
			Table:  b.big,
			Tokens: b.ints(3),
			N:      1,
			Dim:    dim,
			Vocab:  3,
		},
		"negative token": kernels.Embed{
			Out:    b.small,
			Table:  b.big,
			Tokens: b.ints(-1),
			N:      1,
			Dim:    dim,
			Vocab:  3,
		},
		"row past the end": kernels.GatherRows{
			Out:    b.small,
			In:     b.big,
			Index:  b.ints(3),
			N:      1,
			Dim:    dim,
			InRows: 3,
		},
		"slot past the arena":     kernels.StoreKV{K: b.small, V: b.small, Slots: b.ints(8), N: 1, KV: b.kv},
		"block past the arena":    b.look(0, 3, 4),
		"negative block":          b.look(0, 3, -1),
		"position past the table": b.look(0, 4, 0),
		"negative position":       b.look(0, -1, 0),
		"row before padding":      b.look(-2, 0, 0),
		"slot before padding":     kernels.StoreKV{K: b.small, V: b.small, Slots: b.ints(-2), N: 1, KV: b.kv},
		"block past those gathered": kernels.GatherBlocks{
			Out:         b.small,
			Arena:       b.big,
			Blocks:      b.ints(4),
			BlockBytes:  4 * dim,
			N:           1,
			ArenaBlocks: 4,
		},
		"negative block scattered": kernels.ScatterBlocks{
			Arena:       b.big,
			In:          b.small,
			Blocks:      b.ints(-1),
			BlockBytes:  4 * dim,
			N:           1,
			ArenaBlocks: 4,
		},
		"adapter past the last":    b.shrink(1, 1, 0, b.big),
		"adapter before none":      b.shrink(-2, 1, 0, b.big),
		"rank past the highest":    b.shrink(0, 2, 0, b.big),
		"rank of nothing":          b.shrink(0, 0, 0, b.big),
		"matrix past its pages":    b.shrink(0, 1, kernels.PageBytes-32, b.big),
		"matrix off its alignment": b.shrink(0, 1, 8, b.big),
		"page that is not there":   b.shrink(0, 1, 0, 0),
	})
	b.launch(b.look(0, 3, 3))
	if err := b.s.Sync(); err != nil {
		t.Errorf("valid arguments: %v", err)
	}
}

// bad holds arrays that are too small for the kernels' arguments.
type bad struct {
	*bench
	big, small cuda.Ptr // F32 [64, dim], [dim]
	kv         kernels.KVLayout
}

const dim = 16

func newBad(t *testing.T, d cuda.Device) *bad {
	t.Helper()
	b := &bad{bench: newBench(t, d)}
	b.big, b.small = put(b.bench, make([]float32, 64*dim)), put(b.bench, make([]float32, dim))
	b.kv = kernels.KVLayout{
		Arena: b.big, BlockBytes: 8 * 2 * dim, ValueOffset: 4 * 2 * dim, Blocks: 4, BlockTokens: 2, KVHeads: 1,
		HeadDim: dim,
	}
	return b
}

func (b *bad) ints(v ...int32) cuda.Ptr { return put(b.bench, v) }

func (b *bad) look(row, position, block int32) kernels.Attention {
	return kernels.Attention{
		Out: b.small, Q: b.small, Rows: b.ints(row), Positions: b.ints(position), Tables: b.ints(block, block),
		TableWidth: 2,
		N:          1, Heads: 1, KV: b.kv,
	}
}

func (b *bad) shrink(row, rank int32, offset int64, page cuda.Ptr) kernels.LoRAShrink {
	return kernels.LoRAShrink{Mid: b.small, In: b.small, N: 1, K: dim, A: kernels.LoRA{
		Rows: b.ints(row), Pages: put(b.bench, []cuda.Ptr{page}), Offsets: put(b.bench, []int64{offset}),
		Ranks:  b.ints(rank),
		Scales: b.small, Adapters: 1, PageWidth: 1, MaxRank: 1,
	}}
}

// faults queues each op on a stream of its own.
func (b *bad) faults(ops map[string]cuda.Op) {
	b.Helper()
	for name, op := range ops {
		s := stream(b.T, b.d)
		err := errors.Join(s.Launch(op), s.Sync())
		if fault := (*cuda.Fault)(nil); !errors.As(err, &fault) || fault.Op != op.Kernel() {
			b.Errorf("%s: %v", name, err)
		}
		_ = s.Close()
	}
}

// propagatesNaN: NaN in the input gives NaN in the result.
func propagatesNaN(t *testing.T, d cuda.Device) {
	b := newBench(t, d)
	const dim = 24 // one and a half vectors
	nan := float32(math.NaN())
	x := make([]float32, dim)
	x[3] = nan
	p := put(b, x)
	one := put(b, []float32{1})
	c := b.store(heads{1, 1, dim}, 4)
	silu, product, norm := put(b, x), put(b, []float32{0}), put(b, x)
	b.launch(kernels.SiluMul{Out: silu, Gate: silu, Up: put(b, make([]float32, dim)), N: dim})
	b.launch(kernels.MatMul{Out: product, In: p, Weight: put(b, make([]float32, dim)), M: 1, N: 1, K: dim, Bias: one})
	b.launch(kernels.RMSNorm{Out: norm, In: norm, Weight: put(b, make([]float32, dim)), N: 1, Dim: dim})
	for name, v := range map[string]float32{
		"silu": b.get(silu, dim)[3], "matmul": b.get(product, 1)[0], "rmsnorm": b.get(norm, dim)[0],
		"attention": b.look(c, x, []row{{0, 20}}, 0)[0],
	} {
		if v == v {
			t.Errorf("%s turns NaN into %v", name, v)
		}
	}
}
