package lora

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
