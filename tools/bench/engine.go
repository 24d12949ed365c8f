package main

import (
	"context"
	"fmt"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/kernels"
	"troupe/engine"
)

// parameters of kjv-2m that a token is multiplied with: all of them, since embeddings are tied.
const (
	columns = 192
	rows    = 2_556_096 / columns
)

func engineSpeed() (section, error) {
	s := section{
		title: "engine/llama on the software device",
		how: "Against a bare product over as many weight bytes: one MatMul launch on the same device, with as many rows as the step has tokens, " +
			"without attention, norms, sampling or a batch to look after.",
	}
	e, err := direct()
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
		{"decode, batch 1", 1, 100, 0.5, func(i int) []engine.Sequence { return []engine.Sequence{sequence(0, 20+i, 5)} }},
		{"decode, batch 16", 16, 30, 0, func(i int) (b []engine.Sequence) {
			for j := range 16 {
				b = append(b, sequence(j, 20+i, 5))
			}
			return b
		}},
		{"prefill of 512 tokens", 512, 3, 0, func(int) []engine.Sequence { return []engine.Sequence{sequence(0, 0, make([]uint32, 512)...)} }},
	} {
		bare, err := product(c.m)
		if err != nil {
			return s, err
		}
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
			aim, met = fmt.Sprintf("%.2f or more", c.aim), yes(1/ratio >= c.aim)
		}
		s.rows = append(s.rows, row{c.what + ": speed over the bare product", fmt.Sprintf("%.2f (%.0f tokens/s against %.0f)", 1/ratio, n/with.Seconds(), n/without.Seconds()), aim, met})
	}
	return s, nil
}

// product returns a function that multiplies m rows with as many weights as the model has.
func product(m int) (func() error, error) {
	d, err := host.Open(host.Config{MemoryBytes: 1 << 30})
	if err != nil {
		return nil, err
	}
	stream, err := d.NewStream("bare")
	if err != nil {
		return nil, err
	}
	var p [3]cuda.Ptr
	for i, n := range []int{m * rows, m * columns, rows * columns} {
		if p[i], err = d.Alloc(4 * int64(n)); err != nil {
			return nil, err
		}
	}
	op := kernels.MatMul{Out: p[0], In: p[1], Weight: p[2], M: int32(m), N: rows, K: columns}
	run := func() error {
		if err := stream.Launch(op); err != nil {
			return err
		}
		return stream.Sync()
	}
	return run, run() // once, so that the memory is there
}
