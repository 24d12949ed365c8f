package adapters

import (
	"math/rand/v2"

	"troupe/core/hbm"
	"troupe/core/lora"
)

// fragmentation is what 10,000 loads and evictions did to one kind of memory.
type fragmentation struct {
	failures  int     // an adapter had no room though as many bytes were free, that is, given to none
	unused    int     // likewise, with the bytes that adapters were given and do not use
	external  float64 // mean share of the free bytes that is not in the largest piece that can be had at once
	internal  float64 // mean share of the bytes given out that no adapter uses
	residents float64 // mean
}

const (
	cycles = 10_000
	memory = 12 << 30
)

var ranks = []int{8, 16, 32, 64}

// allocator is one kind of memory.
type allocator interface {
	allocate(l *lora.Layout) (free func(), ok bool)
	// state returns the free bytes, how many of them one adapter could have, and the bytes that are given out.
	state() (free, largest, given int64)
}

type paged struct{ *lora.Pages }

func newPaged() paged {
	numbers := make([]uint32, memory/hbm.PageBytes)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	return paged{lora.NewPages(numbers)}
}

func (p paged) allocate(l *lora.Layout) (func(), bool) {
	pages, ok := p.Allocate(l.Pages())
	return func() { p.Free(pages) }, ok
}

func (p paged) state() (free, largest, given int64) {
	free = int64(p.Left()) * hbm.PageBytes
	return free, free, memory - free
}

type contiguous struct{ *lora.FirstFit }

func (c contiguous) allocate(l *lora.Layout) (func(), bool) {
	at, ok := c.Allocate(l.Bytes())
	return func() { c.Free(at) }, ok
}

func (c contiguous) state() (free, largest, given int64) {
	free, largest = c.Holes()
	return free, largest, memory - free
}

type resident struct {
	bytes int64
	free  func()
}

// fragment loads adapters of mixed ranks, each drawn with equal probability, and evicts random ones to make room.
func fragment(a allocator, seed uint64) (f fragmentation) {
	r := rand.New(rand.NewPCG(seed, 2))
	var layouts []*lora.Layout
	for _, rank := range ranks {
		layouts = append(layouts, llama70B.Layout(rank))
	}
	var there []resident
	var used int64
	for range cycles {
		l := layouts[r.IntN(len(layouts))]
		free, ok := a.allocate(l)
		for !ok {
			if left, _, _ := a.state(); left >= l.Bytes() {
				f.failures++
			}
			if memory-used >= l.Bytes() {
				f.unused++
			}
			i := r.IntN(len(there))
			there[i].free()
			used -= there[i].bytes
			there[i] = there[len(there)-1]
			there = there[:len(there)-1]
			free, ok = a.allocate(l)
		}
		there = append(there, resident{l.Bytes(), free})
		used += l.Bytes()
		left, largest, given := a.state()
		if left > 0 {
			f.external += 1 - float64(largest)/float64(left)
		}
		f.internal += 1 - float64(used)/float64(given)
		f.residents += float64(len(there))
	}
	f.external, f.internal, f.residents = f.external/cycles, f.internal/cycles, f.residents/cycles
	return f
}
