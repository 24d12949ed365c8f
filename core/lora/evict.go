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

// victims returns eligible idle adapters with at least the given pages in total, or nil.
func (p *Pool) victims(pages int, eligible func(*adapter) bool) []*adapter {
	var idle []*adapter
	for _, a := range p.adapters {
		if a.state == Idle && eligible(a) {
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

func (p *Pool) evict(a *adapter) {
	a.state = Evicting
	p.evictingPages += len(a.pages)
	p.stats.Evictions++
	p.emit(Evict{a.id})
}

// Evicted reports that nothing reads an adapter's pages any longer.
func (p *Pool) Evicted(id string) {
	a, ok := p.adapters[id]
	if !ok || a.state != Evicting {
		return
	}
	p.evictingPages -= len(a.pages)
	p.freePages(a)
	p.finishDelete(a)
	p.startPending()
}
