// Package adapters makes LoRAs up, for tests and benchmarks whose subject is not what an adapter has learnt.
package adapters

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"

	"troupe/core/lora"
	"troupe/engine"
)

// Shape is a model whose projections are [out, in].
type Shape struct {
	Layers      int
	Projections [lora.Targets][2]int
}

// KJV is the shipped model.
var KJV = Shape{6, [lora.Targets][2]int{
	lora.Q: {192, 192}, lora.K: {64, 192}, lora.V: {64, 192}, lora.O: {192, 192}, lora.Gate: {512, 192}, lora.Up: {512, 192}, lora.Down: {192, 512},
}}

// Random is an adapter of F32 for those projections that has reports true for; its elements are drawn. What it adds is as large as
// what it is added to.
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

// matrix is where one is, and the largest that its elements can be.
type matrix struct {
	lora.Extent
	bound float64
}

// Everywhere is an adapter for all projections.
func Everywhere(int, lora.Target) bool { return true }
