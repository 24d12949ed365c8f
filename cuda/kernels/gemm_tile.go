package kernels

import (
	"math"

	"troupe/cuda"
)

// Tile returns the number of rows that a library multiplies at once, for a type of weights.
func Tile(t cuda.DType) int32 {
	if t == cuda.F32 {
		return TileRows
	}
	return TileRows / 2
}

func (m machine) splitRows(op SplitRows) {
	rows, k := checkTile(op.M, op.DType), int(op.K)
	in := m.f32(op.In, rows*k)
	if op.DType == cuda.F32 {
		out := m.f32(op.Out, TileRows*k)
		clear(out[copy(out, in):])
		return
	}
	out, scales := m.u16(op.Out, TileRows*k), m.f32(op.Scales, rows)
	clear(out)
	for i := range rows {
		n := 0
		if op.DType == cuda.F16 {
			n = fitting(in[i*k:][:k])
		}
		scales[i] = float32(math.Ldexp(1, -n))
		hi, lo, back := out[i*k:][:k], out[(TileRows/2+i)*k:][:k], make([]float32, k)
		for j, x := range in[i*k:][:k] {
			hi[j] = narrow(x*float32(math.Ldexp(1, n)), op.DType)
		}
		Widen(back, hi, op.DType)
		for j, x := range in[i*k:][:k] {
			lo[j] = narrow(x*float32(math.Ldexp(1, n))-back[j], op.DType)
		}
	}
}

func checkTile(rows int32, t cuda.DType) int {
	if rows > Tile(t) {
		panic("more rows than a tile")
	}
	return int(rows)
}

// fitting returns the exponent of the power of two that scales a row's largest element into [2¹³,
// 2¹⁵), as far as possible.
func fitting(row []float32) int {
	var most uint32
	for _, x := range row {
		if bits := math.Float32bits(x) &^ (1 << 31); x == x {
			most = max(most, bits)
		}
	}
	return min(127+14-int(most>>23), 126)
}

// narrow rounds to 16 bits: to nearest, ties to even.
func narrow(x float32, t cuda.DType) uint16 {
	bits := math.Float32bits(x)
	size, sign := bits&^(1<<31), uint16(bits>>16)&(1<<15)
	switch {
	case t == cuda.BF16 && x != x:
		return uint16(bits>>16) | 64
	case t == cuda.BF16:
		return uint16((bits + 0x7fff + bits>>16&1) >> 16)
	case x != x:
		return sign | 0x7e00
	case size >= math.Float32bits(65520):
		return sign | 0x7c00
	case size < math.Float32bits(1.0/(1<<14)): // subnormal
		return sign | uint16(math.Float32bits(math.Float32frombits(size)+0.5)-math.Float32bits(0.5))
	}
	return sign | uint16((size+0xfff+size>>13&1-112<<23)>>13)
}

func (m machine) joinRows(op JoinRows) {
	rows, n := checkTile(op.M, op.DType), int(op.N)
	in, bias, scales := m.f32(op.In, TileRows*n), []float32(nil), []float32(nil)
	if op.Bias != 0 {
		bias = m.f32(op.Bias, n)
	}
	if op.DType != cuda.F32 {
		scales = m.f32(op.Scales, rows)
	}
	for i := range rows {
		out := m.f32(op.Out.Offset(4*int64(i)*int64(op.Stride)), n)
		for j := range out {
			v := in[i*n+j]
			if scales != nil {
				v = (v + in[(TileRows/2+i)*n+j]) * scales[i]
			}
			if bias != nil {
				v += bias[j]
			}
			if op.Accumulate {
				v += out[j]
			}
			out[j] = v
		}
	}
}
