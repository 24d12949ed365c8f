package main

import (
	"context"
	"fmt"
	"unsafe"

	"troupe/cuda"
	"troupe/cuda/kernels"
	"troupe/engine"
)

// matrices returns the sizes of the matrices that kjv-2m multiplies a token with: rows and columns.
func matrices() (all [][2]int) {
	const hidden, kv, intermediate, vocab, layers = 192, 64, 512, 1024, 6
	for range layers {
		all = append(all, [][2]int{
			{hidden, hidden}, {kv, hidden}, {kv, hidden}, {hidden, hidden}, {intermediate, hidden},
			{intermediate, hidden}, {hidden, intermediate},
		}...)
	}
	return append(all, [2]int{vocab, hidden})
}

func engineSpeed() (section, error) {
	s := section{
		title: "engine/llama on the software device",
		how: "Compared to a bare loop of matrix-vector products, or matrix products for steps with more " +
			"tokens, over the same bytes: the model's matrices one after another, on one core, without a " +
			"device, attention, norms or sampling. The engine splits large work among the cores.",
	}
	e, err := openEngine()
	if err != nil {
		return s, err
	}
	defer e.Close()
	for _, c := range []struct {
		what    string
		m, reps int
		aim     float64
		step    func(i int) []engine.Sequence
	}{
		{"decode, batch 1", 1, 100, 0.5, func(i int) []engine.Sequence {
			return []engine.Sequence{sequence(0, 20+i, 5)}
		}},
		{"decode, batch 16", 16, 30, 0, func(i int) (b []engine.Sequence) {
			for j := range 16 {
				b = append(b, sequence(j, 20+i, 5))
			}
			return b
		}},
		{"prefill of 512 tokens", 512, 3, 0, func(int) []engine.Sequence {
			return []engine.Sequence{sequence(0, 0, make([]uint32, 512)...)}
		}},
	} {
		bare := multiplyAll(c.m)
		with, without, ratio, err := paired(9, func() error {
			for i := range c.reps {
				if _, err := e.Step(context.Background(), c.step(i)); err != nil {
					return err
				}
			}
			return nil
		}, func() error {
			for range c.reps {
				if err := bare(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return s, err
		}
		n := float64(c.m * c.reps)
		aim, met := "", ""
		if c.aim > 0 {
			aim, met = fmt.Sprintf("%.2f or more", c.aim), yesNo(1/ratio >= c.aim)
		}
		s.rows = append(
			s.rows,
			row{
				c.what + ": speed over the bare loop",
				fmt.Sprintf("%.2f (%.0f tokens/s against %.0f)", 1/ratio, n/with.Seconds(), n/without.Seconds()), aim,
				met,
			},
		)
	}
	return s, nil
}

// memory is Go memory by address, for kernels without a device.
type memory struct{}

// Bytes implements kernels.Memory.
func (memory) Bytes(p cuda.Ptr, n int64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

// Prefix implements kernels.Memory.
func (m memory) Prefix(p cuda.Ptr, n int64) []byte { return m.Bytes(p, n) }

func address(x []float32) cuda.Ptr { return cuda.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(x)))) }

// multiplyAll returns a function that multiplies m rows with all matrices of the model, on one
// core.
func multiplyAll(m int) func() error {
	const widest = 1024
	in, out := make([]float32, m*widest), make([]float32, m*widest)
	var weights [][]float32
	for _, s := range matrices() {
		weights = append(weights, make([]float32, s[0]*s[1]))
	}
	return func() error {
		for i, s := range matrices() {
			kernels.Run(memory{}, func(n int, _ int64, work func(lo, hi int)) { work(0, n) }, kernels.MatMul{
				Out: address(out), In: address(in), Weight: address(weights[i]), M: int32(m), N: int32(s[0]),
				K: int32(s[1]),
			})
		}
		return nil
	}
}
