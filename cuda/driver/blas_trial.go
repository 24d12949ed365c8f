//go:build linux

package driver

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// tryBLAS runs a trial multiplication with cuBLAS. If the result is wrong, products use the
// built-in kernels, and noBLAS holds the reason. The error is one of a device that does not work.
func (d *device) tryBLAS() error {
	if d.lib.blas == nil {
		return nil
	}
	d.blas = d.lib.blas
	why := d.compareProducts()
	if lost := d.usable(); lost != nil {
		return fmt.Errorf("trial of cuBLAS (disable it with --cublas off): %w", lost)
	}
	if why != nil {
		d.blas, d.noBLAS = nil, "cuBLAS is installed but not used: "+why.Error()
		return nil
	}
	d.info.StreamBytes = productBytes
	return nil
}

// Sizes of the trial: the rows do not fill whole tiles, and are multiplied alone and together.
const trialRows, trialN, trialK = 65, 24, 40

// compareProducts returns an error if cuBLAS's products differ from those of the built-in kernels
// by more than rounding, or if the bits of a row depend on the batch.
func (d *device) compareProducts() (err error) {
	opened, err := d.NewStream("trial of cuBLAS")
	if err != nil {
		return err
	}
	s := opened.(*stream)
	const inputs, weights, results = 4 * trialRows * trialK, 4 * trialN * trialK, 4 * trialRows * trialN
	memory, err := d.AllocHost(inputs + weights + 3*results)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	at, err := d.Alloc(inputs + weights + 3*results)
	if err != nil {
		return errors.Join(err, s.Close(), memory.Free())
	}
	defer func() { err = errors.Join(err, s.Close(), memory.Free(), d.Free(at)) }()
	host := unsafe.Slice((*float32)(unsafe.Pointer(&memory.Bytes()[0])), len(memory.Bytes())/4)
	for i := range (inputs + weights) / 4 {
		bf16 := math.Float32bits(float32(math.Sin(float64(i*i)))) >> 16
		host[i] = math.Float32frombits(bf16<<16 | bf16) // a similar number as F32 and as two BF16
	}
	for _, t := range []cuda.DType{cuda.F32, cuda.BF16} {
		product := func(row, rows int32, to int64) kernels.MatMul {
			return kernels.MatMul{
				Out: at.Offset(inputs + weights + to*results), In: at.Offset(int64(row) * 4 * trialK),
				Weight: at.Offset(inputs),
				M:      rows, N: trialN, K: trialK, DType: t,
			}
		}
		err := errors.Join(
			s.CopyIn(at, memory.Bytes()[:inputs+weights]),
			s.launch(product(0, trialRows, 0)),
			s.Launch(product(0, trialRows, 1)),
			s.Launch(
				product(trialRows-1, 1, 2),
			),
			s.CopyOut(memory.Bytes()[inputs+weights:], at.Offset(inputs+weights)),
			s.Sync(),
		)
		got := host[(inputs+weights)/4:]
		if err := errors.Join(
			err, sameProducts(got[:results/4], got[results/4:2*results/4], got[2*results/4:][:trialN]),
		); err != nil {
			return fmt.Errorf("with weights of %v: %w", t, err)
		}
	}
	return nil
}

func sameProducts(own, blas, alone []float32) error {
	for i, want := range own {
		if diff := math.Abs(float64(blas[i] - want)); !(diff <= 1e-4) {
			return fmt.Errorf("an element of a product is %v, want %v", blas[i], want)
		}
	}
	for i, v := range alone {
		if among := blas[(trialRows-1)*trialN+i]; v != among {
			return fmt.Errorf("an element of a row is %v alone, but %v in a batch", v, among)
		}
	}
	return nil
}

// gemmBackend returns the GEMM backend.
func (d *device) gemmBackend() string {
	if d.blas == nil {
		return "own kernels: " + d.noBLAS
	}
	v := d.blasVersion.Load()
	return fmt.Sprintf("cuBLAS %d.%d.%d", v/10000, v/100%100, v%100)
}
