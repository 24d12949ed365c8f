package lora

// Order says which of two idle adapters leaves the device first: negative for a. Of equals it is the less popular one.
type Order func(a, b string) int

// before orders idle adapters, those that leave first in front.
func (p *Pool) before(a, b *adapter) int {
	if p.cfg.Order != nil {
		if c := p.cfg.Order(a.id, b.id); c != 0 {
			return c
		}
	}
	return a.compare(b)
}
