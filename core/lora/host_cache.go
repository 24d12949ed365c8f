package lora

import "slices"

// tier is the nearest place that an adapter can be read from.
func (a *adapter) tier() Tier {
	if a.dram {
		return DRAM
	}
	return Disk
}

// keep finds host memory for an adapter that is about to be read from disk. Others that are not being read make room, the least
// popular first; where all of them together are not enough, it is not kept.
func (p *Pool) keep(a *adapter) {
	need := p.host + a.layout.Bytes() - p.cfg.HostBytes
	var others []*adapter
	for _, b := range p.adapters {
		if b.dram && b.state != Loading {
			others = append(others, b)
		}
	}
	slices.SortFunc(others, func(a, b *adapter) int { return a.compare(b) })
	n := 0
	for ; need > 0 && n < len(others); n++ {
		need -= others[n].layout.Bytes()
	}
	if need > 0 {
		return
	}
	for _, b := range others[:n] {
		p.dropHost(b)
	}
	a.dram = true
	p.host += a.layout.Bytes()
}

// dropHost frees the host memory of an adapter.
func (p *Pool) dropHost(a *adapter) {
	if a.dram {
		a.dram = false
		p.host -= a.layout.Bytes()
		p.act(Drop{a.id})
	}
}
