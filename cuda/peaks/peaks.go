// Package peaks measures the highest rates that the kernels of a device reach.
package peaks

import (
	"errors"
	"fmt"
	"time"

	"troupe/core/utilization"
	"troupe/cuda"
	"troupe/cuda/kernels"
)

// Source is the source of measured peaks.
const Source = "measured"

const (
	inputs  = 1024    // columns of the weights
	outputs = 2048    // rows of the weights: 8 MiB in F32
	rows    = 64      // of the product that is bound by arithmetic
	some    = 512     // outputs of that product: with fewer, it is short enough to run undisturbed
	rounds  = 12      // of each product
	piece   = 4 << 20 // bytes that are written at a time
)

// Measure returns the peaks of a device: the arithmetic of a product with many rows, and the bandwidth of a product
// with one row, whose 8 MiB of weights it reads once. It takes the best of several rounds, since other work may disturb
// one. A device that caches 8 MiB, such as a software device, reads larger weights more slowly, and does not reach this
// peak with them. Call Measure before anything is loaded.
func Measure(d cuda.Device) (p utilization.Peaks, err error) {
	const weightBytes = 4 * inputs * outputs
	const inBytes, outBytes = 4 * rows * inputs, 4 * rows * outputs
	at, err := d.Alloc(weightBytes + inBytes + outBytes)
	if err != nil {
		return p, fmt.Errorf("measuring peaks: %w", err)
	}
	defer func() { err = errors.Join(err, d.Free(at)) }()
	stream, err := d.NewStream("peaks")
	if err != nil {
		return p, fmt.Errorf("measuring peaks: %w", err)
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if err := fill(d, stream, at, weightBytes+inBytes); err != nil {
		return p, fmt.Errorf("measuring peaks: %w", err)
	}
	product := kernels.MatMul{
		Weight: at, In: at.Offset(weightBytes), Out: at.Offset(weightBytes + inBytes), M: rows, N: some, K: inputs,
		DType: cuda.F32,
	}
	many, err := fastest(stream, product)
	if err != nil {
		return p, fmt.Errorf("measuring peaks: %w", err)
	}
	product.M, product.N = 1, outputs
	one, err := fastest(stream, product)
	if err != nil {
		return p, fmt.Errorf("measuring peaks: %w", err)
	}
	return utilization.Peaks{
		FLOPs: 2 * rows * inputs * some / many.Seconds(), Bytes: weightBytes / one.Seconds(), Source: Source,
	}, nil
}

// fill writes zeros, so that the memory is there. Products of zeros take as long as others.
func fill(d cuda.Device, stream cuda.Stream, at cuda.Ptr, bytes int) error {
	host, err := d.AllocHost(piece)
	if err != nil {
		return err
	}
	clear(host.Bytes())
	for from := 0; from < bytes; from += piece {
		part := host.Bytes()[:min(piece, bytes-from)]
		err = errors.Join(err, stream.CopyIn(at.Offset(int64(from)), part), stream.Sync())
	}
	return errors.Join(err, host.Free())
}

// fastest returns the time of the fastest of several rounds. The first one is not counted, since it touches the output
// for the first time.
func fastest(stream cuda.Stream, product kernels.MatMul) (best time.Duration, err error) {
	for i := range rounds + 1 {
		began := time.Now()
		if err := errors.Join(stream.Launch(product), stream.Sync()); err != nil {
			return 0, err
		}
		if took := max(time.Since(began), 1); i == 1 || i > 1 && took < best {
			best = took
		}
	}
	return best, nil
}
