package adapters

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"troupe/core/hbm"
	"troupe/core/lora"
)

// fragmentation is the result of 10,000 loads and evictions in one kind of memory.
type fragmentation struct {
	failures  int     // loads that failed although enough bytes were free
	unused    int     // the same, counting allocated but unused bytes as free
	external  float64 // mean share of the free bytes outside the largest free piece
	internal  float64 // mean share of the allocated bytes that no adapter uses
	residents float64 // mean number of resident adapters
}

const cycles = 10_000

// memories are the simulated memories and the adapters loaded into them.
var memories = []adapterMemory{
	{llama70B, []int{8, 16, 32, 64}, 12 << 30},
	{llama8B, []int{8, 16, 32, 64}, 2 << 30},
	{kjv, []int{4, 8, 16, 32}, 64 << 20},
}

type adapterMemory struct {
	Model
	ranks  []int
	memory int64
}

// allocator is one kind of memory management.
type allocator interface {
	allocate(l *lora.Layout) (free func(), ok bool)
	// state returns the free bytes, the largest part of them that one adapter could get, and the
	// allocated bytes.
	state() (free, largest, given int64)
}

type paged struct{ *lora.Pages }

func newPaged(memory int64) paged {
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
	free = int64(p.Available()) * hbm.PageBytes
	return free, free, int64(p.Total())*hbm.PageBytes - free
}

type contiguous struct {
	*lora.FirstFit
	memory int64
}

func (c contiguous) allocate(l *lora.Layout) (func(), bool) {
	at, ok := c.Allocate(l.Bytes())
	return func() { c.Free(at) }, ok
}

func (c contiguous) state() (free, largest, given int64) {
	free, largest = c.Holes()
	return free, largest, c.memory - free
}

type resident struct {
	bytes int64
	free  func()
}

// fragment loads adapters of mixed ranks, drawn uniformly, and evicts random ones to make room.
func (s adapterMemory) fragment(a allocator, seed uint64) (f fragmentation) {
	r := rand.New(rand.NewPCG(seed, 2))
	var layouts []*lora.Layout
	for _, rank := range s.ranks {
		layouts = append(layouts, s.Layout(rank))
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
			if s.memory-used >= l.Bytes() {
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

// memoryTable returns the table of the fragmentation results.
func memoryTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, `
## Fragmentation

%d loads of adapters for q, k, v and o, of ranks in equal shares; random ones are evicted until one fits. %d seeds.
Failures: loads that found no space although enough bytes were free; one load may fail several times.
With internal waste: the same, counting allocated but unused bytes as free.
External: share of the free bytes outside the largest free piece. Internal: share of the allocated bytes that is unused.
Aims: no failure while bytes suffice, waste under 1 %%. An adapter wastes half a page on average,
so pages meet the aim for adapters of more than fifty pages, and cannot for small ones.

| adapters | memory | failures | with internal waste | external | internal | residents | aims |
| --- | --- | --- | --- | --- | --- | --- | --- |
`, cycles, seeds)
	for _, s := range memories {
		for _, kind := range []struct {
			name string
			make func() allocator
		}{
			{"contiguous, first fit", func() allocator { return contiguous{lora.NewFirstFit(s.memory), s.memory} }},
			{"pages of 2 MiB", func() allocator { return newPaged(s.memory) }},
		} {
			var failures, unused, external, internal, residents []float64
			for seed := range uint64(seeds) {
				f := s.fragment(kind.make(), seed+1)
				failures, unused = append(failures, float64(f.failures)), append(unused, float64(f.unused))
				external, internal = append(external, 100*f.external), append(internal, 100*f.internal)
				residents = append(residents, f.residents)
			}
			met := "missed"
			if slices.Max(failures) == 0 && slices.Max(external) < 1 && slices.Max(internal) < 1 {
				met = "met"
			}
			fmt.Fprintf(
				&b,
				"| %s, ranks %v, in %d MiB | %s | %s | %s | %s | %s | %s | %s |\n",
				s.Name, s.ranks, s.memory>>20, kind.name, spread(failures, "%.0f"), spread(unused, "%.0f"),
				spread(external, "%.1f %%"), spread(internal, "%.2f %%"), spread(residents, "%.1f"), met,
			)
		}
	}
	return b.String()
}
