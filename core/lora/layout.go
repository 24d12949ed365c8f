package lora

import (
	"iter"
	"maps"

	"troupe/core/hbm"
)

// Target is a projection that an adapter changes.
type Target uint8

// The projections of a layer, in the order in which they are computed.
const (
	Q Target = iota
	K
	V
	O
	Gate
	Up
	Down
	Targets // how many there are
)

var targets = [Targets]string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

func (t Target) String() string { return targets[t] }

// Part is one of a projection's two matrices: its output changes by B·A·x·scale.
type Part uint8

// Parts. A is [rank, in], B is [out, rank].
const (
	A Part = iota
	B
)

func (p Part) String() string { return [...]string{"A", "B"}[p] }

// Matrix names one of an adapter's matrices.
type Matrix struct {
	Layer  int
	Target Target
	Part   Part
}

// Extent is where a matrix is in its adapter's address space, in bytes.
type Extent struct{ Offset, Bytes int64 }

// alignment of matrices, as the kernels need it.
const alignment = 16

// Layout is an adapter's address space: its matrices one after the other, in the order in which they were added. It may be shared
// once it is complete.
type Layout struct {
	extents map[Matrix]Extent
	bytes   int64
}

// Add appends a matrix of so many bytes.
func (l *Layout) Add(m Matrix, bytes int64) {
	if l.extents == nil {
		l.extents = make(map[Matrix]Extent)
	}
	if _, twice := l.extents[m]; twice {
		panic("lora: a matrix was added twice")
	}
	l.extents[m] = Extent{l.bytes, bytes}
	l.bytes += (bytes + alignment - 1) / alignment * alignment
}

// Find returns where a matrix is; false where the adapter has none for that projection.
func (l *Layout) Find(m Matrix) (Extent, bool) {
	e, ok := l.extents[m]
	return e, ok
}

// All returns every matrix and where it is, in no order.
func (l *Layout) All() iter.Seq2[Matrix, Extent] { return maps.All(l.extents) }

// Bytes is the size of the address space.
func (l *Layout) Bytes() int64 { return l.bytes }

// Pages is how many pages it takes.
func (l *Layout) Pages() int { return int((l.bytes + hbm.PageBytes - 1) / hbm.PageBytes) }

// Table is a layout in pages: page i of the address space is Pages[i] of the device.
type Table struct {
	*Layout
	Pages []uint32
}

// Span is a part of a matrix within one page.
type Span struct {
	Page   uint32
	Offset int64 // in the page
	Bytes  int64
}

// Spans returns where a matrix is on the device, in order; none where the adapter has no such matrix.
func (t Table) Spans(m Matrix) []Span {
	e, ok := t.Find(m)
	if !ok {
		return nil
	}
	var spans []Span
	for at, end := e.Offset, e.Offset+e.Bytes; at < end; {
		in := at % hbm.PageBytes
		n := min(hbm.PageBytes-in, end-at)
		spans = append(spans, Span{t.Pages[at/hbm.PageBytes], in, n})
		at += n
	}
	return spans
}
