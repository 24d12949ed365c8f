package lora

import (
	"cmp"
	"slices"
)

// places are those that a batch has for different adapters.
type places struct {
	inside  map[string]bool // adapters of the batch, and of those that may not be passed
	running map[string]int  // sequences in the batch, by adapter
	closing string          // takes no request in, so that its place becomes free for one that is too old to be passed
}

func newPlaces(running []string) places {
	p := places{inside: make(map[string]bool), running: make(map[string]int)}
	for _, adapter := range running {
		if adapter != "" {
			p.inside[adapter] = true
			p.running[adapter]++
		}
	}
	return p
}

// reserve gives an adapter a place.
func (p *places) reserve(adapter string) {
	if adapter != "" {
		p.inside[adapter] = true
	}
}

// close closes the adapter with the fewest sequences. While somebody waits for a place, the fewest can only become fewer: the place is
// free when the longest of its sequences ends. The other adapters, which keep theirs anyway, take requests in meanwhile.
func (p *places) close() {
	if p.closing != "" || len(p.running) == 0 {
		return
	}
	var all []string
	for adapter := range p.running {
		all = append(all, adapter)
	}
	p.closing = slices.MinFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(p.running[a], p.running[b]), cmp.Compare(a, b))
	})
}
