package lora

import (
	"iter"
	"maps"

	"troupe/core/hbm"
)

// Target is a projection of a layer that an adapter changes.
type Target uint8

// The projections of a layer, in the order of computation.
const (
	Q Target = iota
	K
	V
	O
	Gate
	Up
	Down
	Targets // number of targets
)

var targets = [Targets]string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

func (t Target) String() string { return targets[t] }

// Part is one of a projection's two matrices. They change the projection's output by B·A·x·scale.
type Part uint8

// Parts. A is [rank, in], B is [out, rank].
const (
	A Part = iota
	B
)

func (p Part) String() string { return [...]string{"A", "B"}[p] }

// Matrix identifies one of an adapter's matrices.
type Matrix struct {
	Layer  int
	Target Target
	Part   Part
}

// Extent is a byte range in an adapter's address space.
type Extent struct{ Offset, Bytes int64 }

// alignment is the alignment of matrices that the kernels require, in bytes.
const alignment = 16

// Layout is an adapter's address space: its matrices in the order in which they were added. A
// complete Layout may be shared.
type Layout struct {
	extents map[Matrix]Extent
	bytes   int64
}

// Add appends a matrix of the given size. It panics if the layout has it already.
func (l *Layout) Add(m Matrix, bytes int64) {
	if l.extents == nil {
		l.extents = make(map[Matrix]Extent)
	}
	if _, twice := l.extents[m]; twice {
		panic("lora: matrix added twice")
	}
	l.extents[m] = Extent{l.bytes, bytes}
	l.bytes += (bytes + alignment - 1) / alignment * alignment
}

// Find returns the extent of a matrix. It reports false if the adapter does not have that matrix.
func (l *Layout) Find(m Matrix) (Extent, bool) {
	e, ok := l.extents[m]
	return e, ok
}

// All returns every matrix and its extent, in no particular order.
func (l *Layout) All() iter.Seq2[Matrix, Extent] { return maps.All(l.extents) }

// Bytes returns the size of the address space.
func (l *Layout) Bytes() int64 { return l.bytes }

// Pages returns the number of pages that the layout needs.
func (l *Layout) Pages() int { return int((l.bytes + hbm.PageBytes - 1) / hbm.PageBytes) }

// Table is a layout in pages: page i of the address space is Pages[i] of the device.
type Table struct {
	*Layout
	Pages []uint32
}
