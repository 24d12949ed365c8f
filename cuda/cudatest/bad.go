package cudatest

import (
	"errors"
	"math"
	"testing"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// badArguments: a kernel that is told, or reads, where it must not go is a fault, and harms nothing else.
func badArguments(t *testing.T, d cuda.Device) {
	b := newBench(t, d)
	const dim = 16
	floats, small := put(b, make([]float32, 64*dim)), put(b, make([]float32, dim))
	ints := func(v ...int32) cuda.Ptr { return put(b, v) }
	kv := kernels.KVLayout{
		Arena: floats, BlockBytes: 8 * 2 * dim, ValueOffset: 4 * 2 * dim, Blocks: 4, BlockTokens: 2, KVHeads: 1, HeadDim: dim,
	}
	look := func(row, position, block int32) kernels.Attention {
		return kernels.Attention{
			Out: small, Q: small, Rows: ints(row), Positions: ints(position), Tables: ints(block, block), TableWidth: 2, N: 1, Heads: 1, KV: kv,
		}
	}
	outside, overlong := look(0, 0, 0), look(0, 0, 0)
	outside.KV.ValueOffset = 4 * 3 * dim
	overlong.KV.Blocks = 1000
	adapters := func(row, rank int32, offset int64, pages cuda.Ptr) kernels.LoRAShrink {
		a := kernels.LoRA{
			Rows: ints(row), Pages: put(b, []cuda.Ptr{pages}), Offsets: put(b, []int64{offset}), Ranks: ints(rank), Scales: small,
			Adapters: 1, PageWidth: 1, MaxRank: 1,
		}
		return kernels.LoRAShrink{Mid: small, In: small, N: 1, K: dim, A: a}
	}
	for name, op := range map[string]cuda.Op{
		"token past the vocabulary": kernels.Embed{Out: small, Table: floats, Tokens: ints(3), N: 1, Dim: dim, Vocab: 3},
		"negative token":            kernels.Embed{Out: small, Table: floats, Tokens: ints(-1), N: 1, Dim: dim, Vocab: 3},
		"row past the end":          kernels.GatherRows{Out: small, In: floats, Index: ints(3), N: 1, Dim: dim, InRows: 3},
		"weights too short":         kernels.MatMul{Out: floats, In: small, Weight: small, M: 1, N: 2, K: dim},
		"output too short":          kernels.MatMul{Out: small, In: small, Weight: floats, M: 1, N: dim + 1, K: dim},
		"weights of integers":       kernels.MatMul{Out: small, In: small, Weight: floats, M: 1, N: 1, K: dim, DType: cuda.I32},
		"negative size":             kernels.SiluMul{Out: small, Gate: small, Up: small, N: -1},
		"null":                      kernels.RMSNorm{Out: small, In: small, N: 1, Dim: dim},
		"misaligned":                kernels.RMSNorm{Out: small, In: floats + 2, Weight: small, N: 1, Dim: dim},
		"slot past the arena":       kernels.StoreKV{K: small, V: small, Slots: ints(8), N: 1, KV: kv},
		"block past the arena":      look(0, 3, 4),
		"negative block":            look(0, 3, -1),
		"position past the table":   look(0, 4, 0),
		"negative position":         look(0, -1, 0),
		"row past the tables":       look(1, 0, 0),
		"negative row":              look(-1, 0, 0),
		"values past the block":     outside,
		"arena past its memory":     overlong,
		"block past those gathered": kernels.GatherBlocks{Out: small, Arena: floats, Blocks: ints(4), BlockBytes: 4 * dim, N: 1, ArenaBlocks: 4},
		"negative block scattered":  kernels.ScatterBlocks{Arena: floats, In: small, Blocks: ints(-1), BlockBytes: 4 * dim, N: 1, ArenaBlocks: 4},
		"blocks of half elements":   kernels.GatherBlocks{Out: small, Arena: floats, Blocks: ints(0), BlockBytes: 6, N: 1, ArenaBlocks: 4},
		"adapter past the last":     adapters(1, 1, 0, floats),
		"adapter before none":       adapters(-2, 1, 0, floats),
		"rank past the highest":     adapters(0, 2, 0, floats),
		"rank of nothing":           adapters(0, 0, 0, floats),
		"matrix past its pages":     adapters(0, 1, kernels.PageBytes-32, floats),
		"matrix off its alignment":  adapters(0, 1, 8, floats),
		"page that is not there":    adapters(0, 1, 0, 0),
	} {
		s := stream(t, d)
		err := errors.Join(s.Launch(op), s.Sync())
		if fault := (*cuda.Fault)(nil); !errors.As(err, &fault) || fault.Op != op.Kernel() {
			t.Errorf("%s: %v", name, err)
		}
		_ = s.Close()
	}
	b.launch(look(0, 3, 3))
	if err := b.s.Sync(); err != nil {
		t.Errorf("good arguments: %v", err)
	}
}

// passesNaN: a result that is not a number is not taken for one further on.
func passesNaN(t *testing.T, d cuda.Device) {
	b := newBench(t, d)
	const dim = 24
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
			t.Errorf("%s makes %v of NaN", name, v)
		}
	}
}
