package lora

import (
	"cmp"
	"slices"
)

// adapterLimit tracks the adapters in a batch, whose number MaxAdapters limits.
type adapterLimit struct {
	admitted map[string]bool // of the batch, and of requests that later ones may not overtake
	running  map[string]int  // sequences in the batch by adapter
	// closed is the adapter that admits no further requests, so that its place becomes free for a
	// request that may no longer be passed.
	closed string
}

func newAdapterLimit(running []string) adapterLimit {
	p := adapterLimit{admitted: make(map[string]bool), running: make(map[string]int)}
	for _, adapter := range running {
		if adapter != "" {
			p.admitted[adapter] = true
			p.running[adapter]++
		}
	}
	return p
}

// reserve gives an adapter a place.
func (p *adapterLimit) reserve(adapter string) {
	if adapter != "" {
		p.admitted[adapter] = true
	}
}

// closeSmallest closes the adapter with the fewest sequences. While a request waits for a place,
// that number can only shrink, so the place is free when the longest of these sequences ends. All
// other adapters keep their places anyway and admit requests meanwhile.
func (p *adapterLimit) closeSmallest() {
	if p.closed != "" || len(p.running) == 0 {
		return
	}
	var all []string
	for adapter := range p.running {
		all = append(all, adapter)
	}
	p.closed = slices.MinFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(p.running[a], p.running[b]), cmp.Compare(a, b))
	})
}
