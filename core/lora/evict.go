package lora

import "slices"

// Order compares two idle adapters for eviction: a negative result evicts a first. If it returns 0,
// the less popular one is evicted first.
type Order func(a, b string) int

// evictBefore compares idle adapters; those evicted first come first.
func (p *Pool) evictBefore(a, b *adapter) int {
	if p.cfg.Order != nil {
		if c := p.cfg.Order(a.id, b.id); c != 0 {
			return c
		}
	}
	return a.comparePopularity(b)
}

// idlePages returns the number of pages of idle adapters.
func (p *Pool) idlePages() (n int) {
	for _, a := range p.adapters {
		if a.state == Idle {
			n += len(a.pages)
		}
	}
	return n
}

// idleUpTo returns idle adapters with at least the given pages in total, or all of them if they have fewer.
func (p *Pool) idleUpTo(pages int) (idle []*adapter) {
	if pages <= 0 {
		return nil
	}
	for _, a := range p.adapters {
		if a.state == Idle {
			idle = append(idle, a)
		}
	}
	slices.SortFunc(idle, p.evictBefore)
	for i, a := range idle {
		if pages -= len(a.pages); pages <= 0 {
			return idle[:i+1]
		}
	}
	return idle
}

// victims returns idle adapters with at least the given pages in total, or nil. They are those that
// may be evicted for the adapter of an event.
func (p *Pool) victims(pages int, e *event) []*adapter {
	var idle []*adapter
	for _, a := range p.adapters {
		if a.state == Idle && (e.kind != onPrefetch || p.mayPrefetchEvict(a, e)) {
			idle = append(idle, a)
		}
	}
	slices.SortFunc(idle, p.evictBefore)
	for i, a := range idle {
		if pages -= len(a.pages); pages <= 0 {
			return idle[:i+1]
		}
	}
	return nil
}
