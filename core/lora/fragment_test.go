package lora

import (
	"math/rand/v2"
	"testing"

	"troupe/core/hbm"
)

// fragmentation is the result of many loads and evictions in one kind of memory.
type fragmentation struct {
	failures  int     // loads that failed although enough bytes were free
	external  float64 // mean share of the free bytes outside the largest free piece
	internal  float64 // mean share of the allocated bytes that no adapter uses
	residents float64 // mean number of resident adapters
}

// memory is a memory for adapters of a model, with the hidden size and the elements of a key of a token.
type memory struct {
	name               string
	layers, hidden, kv int
	ranks              []int
	bytes              int64
}

// memories are those of docs/simulations/adapters.md.
var memories = []memory{
	{"Llama 70B", 80, 8192, 1024, []int{8, 16, 32, 64}, 12 << 30},
	{"Llama 8B", 32, 4096, 1024, []int{8, 16, 32, 64}, 2 << 30},
	{"kjv-2m", 6, 192, 64, []int{4, 8, 16, 32}, 64 << 20},
}

// layout returns the layout of an adapter for q, k, v and o, with 2 bytes for each element.
func (m memory) layout(rank int) *Layout {
	l := &Layout{}
	for layer := range m.layers {
		for target, out := range []int{Q: m.hidden, K: m.kv, V: m.kv, O: m.hidden} {
			l.Add(Matrix{Layer: layer, Target: Target(target), Part: A}, int64(2*rank*m.hidden))
			l.Add(Matrix{Layer: layer, Target: Target(target), Part: B}, int64(2*rank*out))
		}
	}
	return l
}

// allocator is one kind of memory management.
type allocator interface {
	allocate(l *Layout) (free func(), ok bool)
	// state returns the free bytes, the largest part of them that one adapter could get, and the allocated bytes.
	state() (free, largest, given int64)
}

type paged struct{ *Pages }

func newPaged(bytes int64) paged {
	numbers := make([]uint32, bytes/hbm.PageBytes)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	return paged{NewPages(numbers)}
}

func (p paged) allocate(l *Layout) (func(), bool) {
	pages, ok := p.Allocate(l.Pages())
	return func() { p.Free(pages) }, ok
}

func (p paged) state() (free, largest, given int64) {
	free = int64(p.Available()) * hbm.PageBytes
	return free, free, int64(p.Total())*hbm.PageBytes - free
}

type contiguous struct {
	*FirstFit
	bytes int64
}

func (c contiguous) allocate(l *Layout) (func(), bool) {
	at, ok := c.Allocate(l.Bytes())
	return func() { c.Free(at) }, ok
}

func (c contiguous) state() (free, largest, given int64) {
	free, largest = c.Holes()
	return free, largest, c.bytes - free
}

type residentAdapter struct {
	bytes int64
	free  func()
}

// fragment loads adapters of mixed ranks, drawn uniformly, and evicts random ones to make room.
func (m memory) fragment(a allocator, cycles int, seed uint64) (f fragmentation) {
	r := rand.New(rand.NewPCG(seed, 2))
	var layouts []*Layout
	for _, rank := range m.ranks {
		layouts = append(layouts, m.layout(rank))
	}
	var there []residentAdapter
	var used int64
	for range cycles {
		l := layouts[r.IntN(len(layouts))]
		free, ok := a.allocate(l)
		for !ok {
			if left, _, _ := a.state(); left >= l.Bytes() {
				f.failures++
			}
			i := r.IntN(len(there))
			there[i].free()
			used -= there[i].bytes
			there[i] = there[len(there)-1]
			there = there[:len(there)-1]
			free, ok = a.allocate(l)
		}
		there = append(there, residentAdapter{l.Bytes(), free})
		used += l.Bytes()
		left, largest, given := a.state()
		if left > 0 {
			f.external += 1 - float64(largest)/float64(left)
		}
		f.internal += 1 - float64(used)/float64(given)
		f.residents += float64(len(there))
	}
	n := float64(cycles)
	f.external, f.internal, f.residents = f.external/n, f.internal/n, f.residents/n
	return f
}

// TestFragmentation checks that pages never fail while enough bytes are free, and waste at most the last page of each
// adapter. With -v it runs as long as for docs/simulations/adapters.md, and prints the figures.
func TestFragmentation(t *testing.T) {
	cycles, seeds := 1000, uint64(1)
	if testing.Verbose() {
		cycles, seeds = 10_000, 5
	}
	for seed := range seeds {
		for i, m := range memories {
			pages := m.fragment(newPaged(m.bytes), cycles, seed+1)
			whole := m.fragment(contiguous{NewFirstFit(m.bytes), m.bytes}, cycles, seed+1)
			t.Logf("%s, seed %d, pages: %+v; contiguous: %+v", m.name, seed+1, pages, whole)
			if pages.failures != 0 || pages.external != 0 || pages.internal <= 0 {
				t.Errorf("%s %v, pages: %+v", m.name, m.ranks, pages)
			}
			if whole.failures == 0 || whole.external <= 0 || whole.internal != 0 {
				t.Errorf("%s %v, contiguous: %+v", m.name, m.ranks, whole)
			}
			if i == 0 && (pages.internal > 0.01 || whole.residents >= pages.residents) {
				t.Errorf("large adapters: %+v in pages, %+v in one piece", pages, whole)
			}
		}
	}
}
