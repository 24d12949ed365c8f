// Package adapters generates LoRA adapters for tests and benchmarks that do not depend on trained
// weights.
package adapters

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"

	"troupe/core/lora"
	"troupe/engine"
)

// Shape describes a model by its projections, [out, in].
type Shape struct {
	Layers      int
	Projections [lora.Targets][2]int
}

// KJV is the shape of the shipped model.
var KJV = Shape{6, [lora.Targets][2]int{
	lora.Q: {192, 192}, lora.K: {64, 192}, lora.V: {64, 192}, lora.O: {192, 192}, lora.Gate: {512, 192},
	lora.Up: {512, 192}, lora.Down: {192, 512},
}}

// Random returns an F32 adapter with random elements for the projections that has selects. Its
// output is about as large as the base model's.
func Random(s Shape, rank int, seed uint64, has func(layer int, target lora.Target) bool) engine.AdapterFile {
	l := &lora.Layout{}
	var matrices []matrix
	add := func(m lora.Matrix, rows, columns int) {
		l.Add(m, int64(4*rows*columns))
		e, _ := l.Find(m)
		matrices = append(matrices, matrix{e, 1 / math.Sqrt(float64(columns))})
	}
	for layer := range s.Layers {
		for target, shape := range s.Projections {
			if m := (lora.Matrix{Layer: layer, Target: lora.Target(target)}); has(layer, m.Target) {
				add(m, rank, shape[1])
				m.Part = lora.B
				add(m, shape[0], rank)
			}
		}
	}
	return engine.AdapterFile{Layout: l, Rank: rank, Scale: 1, Read: func(_ context.Context, into []byte) error {
		r := rand.New(rand.NewPCG(seed, uint64(rank)))
		for _, m := range matrices {
			for at := m.Offset; at < m.Offset+m.Bytes; at += 4 {
				binary.LittleEndian.PutUint32(into[at:], math.Float32bits(float32(m.bound*(2*r.Float64()-1))))
			}
		}
		return nil
	}}
}

// matrix is the location of a matrix and the bound of its elements.
type matrix struct {
	lora.Extent
	bound float64
}

// Everywhere selects all projections.
func Everywhere(int, lora.Target) bool { return true }
