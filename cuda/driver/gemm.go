//go:build linux

package driver

import (
	"errors"
	"math"
	"unsafe"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// Limits of one call of cuBLAS. A product with more columns takes several calls; one with longer
// rows uses the built-in kernels.
const (
	mostColumns = 16 << 10
	mostK       = 32 << 10
)

// Layout of a stream's memory for products.
const (
	inBytes        = kernels.TileRows * mostK * 4
	outBytes       = kernels.TileRows * mostColumns * 4
	scaleBytes     = kernels.TileRows * 4
	workspaceBytes = 32 << 20 // what cuBLAS recommends for compute capability 9.0
	productBytes   = inBytes + outBytes + workspaceBytes + scaleBytes
)

// product is the state that a stream needs to multiply.
//
// Invariant: cuBLAS is called for kernels.TileRows rows, whatever the requested number, in memory
// of the same alignment. It chooses its algorithm by the sizes, so a row is computed in the same
// way in any batch.
type product struct {
	handle uintptr // cublasHandle_t
	at     cuda.Ptr
}

func (p *product) in() cuda.Ptr        { return p.at }
func (p *product) out() cuda.Ptr       { return p.at.Offset(inBytes) }
func (p *product) workspace() cuda.Ptr { return p.at.Offset(inBytes + outBytes) }
func (p *product) scales() cuda.Ptr    { return p.at.Offset(inBytes + outBytes + workspaceBytes) }

// multiplies reports whether cuBLAS computes a product on this stream. It does not for partitions,
// since cuBLAS would use the whole device.
func (s *stream) multiplies(op kernels.MatMul) bool {
	return s.dev.blas != nil && s.events == &s.dev.events && op.K <= mostK && op.M > 0 && op.N > 0 && op.K > 0
}

// startProduct creates a stream's product once. The lock is held.
func (s *stream) startProduct() error {
	if s.product != nil {
		return nil
	}
	at, err := s.dev.Alloc(productBytes)
	if err != nil {
		return err
	}
	p, handle, context := &product{at: at}, out[uintptr](), s.events.context
	if err := s.dev.callBLAS(context, "start cuBLAS", s.dev.blas.Create, address(handle)); err != nil {
		return errors.Join(err, s.dev.Free(at))
	}
	p.handle = *handle
	version := out[int32]()
	err = errors.Join(
		s.dev.callBLAS(context, "query cuBLAS's version", s.dev.blas.Version, p.handle, address(version)),
		s.dev.callBLAS(context, "set cuBLAS's stream", s.dev.blas.SetStream, p.handle, s.handle),
		s.dev.callBLAS(
			context,
			"set cuBLAS's workspace",
			s.dev.blas.SetWorkspace,
			p.handle,
			uintptr(p.workspace()),
			workspaceBytes,
		),
	)
	if err != nil {
		return errors.Join(err, s.endProduct(p))
	}
	s.dev.blasVersion.Store(*version)
	s.product = p
	return nil
}

// endProduct frees a stream's product after its work.
func (s *stream) endProduct(p *product) error {
	if p == nil {
		return nil
	}
	err := s.dev.callBLAS(s.events.context, "end cuBLAS", s.dev.blas.Destroy, p.handle)
	if s.dev.lost.Load() != nil {
		err = nil
	}
	return errors.Join(err, s.dev.Free(p.at))
}

// multiply computes a product with cuBLAS, tile by tile. The lock is held.
func (s *stream) multiply(op kernels.MatMul) error {
	if err := errors.Join(s.ready(), s.startProduct()); err != nil {
		return err
	}
	p, tile := s.product, kernels.Tile(op.DType)
	for row := int32(0); row < op.M; row += tile {
		rows := min(tile, op.M-row)
		split := kernels.SplitRows{
			Out: p.in(), In: op.In.Offset(4 * int64(row) * int64(op.K)), Scales: p.scales(), M: rows, K: op.K,
			DType: op.DType,
		}
		if err := s.launch(split); err != nil {
			return err
		}
		for column := int32(0); column < op.N; column += mostColumns {
			if err := s.multiplyTile(op, row, rows, column, min(mostColumns, op.N-column)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stream) multiplyTile(op kernels.MatMul, row, rows, column, columns int32) error {
	p := s.product
	weight := op.Weight.Offset(int64(column) * int64(op.K) * op.DType.Bytes())
	if err := s.gemm(op.DType, weight, columns, op.K); err != nil {
		return err
	}
	join := kernels.JoinRows{
		Out: op.Out.Offset(4 * (int64(row)*int64(op.N) + int64(column))), In: p.out(), Scales: p.scales(),
		M: rows, N: columns, Stride: op.N, DType: op.DType, Accumulate: op.Accumulate,
	}
	if op.Bias != 0 {
		join.Bias = op.Bias.Offset(4 * int64(column))
	}
	return s.launch(join)
}

// cuBLAS's enumerations: cublasOperation_t, cudaDataType, cublasComputeType_t, cublasGemmAlgo_t.
const (
	asItIs, transposed = 0, 1
	computeF32         = 68
	anyAlgorithm       = math.MaxUint64 // -1
)

var blasType = map[cuda.DType]uintptr{cuda.F32: 0, cuda.F16: 2, cuda.BF16: 14}

// one and none are alpha and beta, which cuBLAS reads during the call.
var one, none float32 = 1, 0

// gemm queues out = in · weightᵀ, with in [TileRows, K] and weight [N, K]. cuBLAS is column-major,
// so for it this is outᵀ = weight · inᵀ.
func (s *stream) gemm(t cuda.DType, weight cuda.Ptr, n, k int32) error {
	p, kind := s.product, blasType[t]
	call := wide{fn: s.dev.blas.Gemm.at, args: [20]uintptr{
		p.handle, transposed, asItIs, uintptr(n), kernels.TileRows, uintptr(k), address(&one),
		uintptr(weight), kind, uintptr(k), uintptr(p.in()), kind, uintptr(k), address(&none),
		uintptr(p.out()), blasType[cuda.F32], uintptr(n), computeF32, anyAlgorithm,
	}}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&call)), unsafe.Sizeof(call))
	slot, err := s.slot("product", len(bytes))
	if err != nil {
		return err
	}
	copy(slot, bytes)
	return s.queue(kernels.MatMul{}.Kernel(), symbol{at: runWideAddress}, address(&slot[0]))
}
