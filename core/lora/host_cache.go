package lora

import "slices"

// tier returns the nearest tier below the device that has the adapter.
func (a *adapter) tier() Tier {
	if a.inHost {
		return DRAM
	}
	return Disk
}

// cacheInHost reserves host memory for an adapter that is about to be read from disk. It drops
// others that are not being read, least popular first. If dropping all of them is not enough, the
// adapter is not cached.
func (p *Pool) cacheInHost(a *adapter) {
	need := p.hostBytes + a.layout.Bytes() - p.cfg.HostBytes
	var others []*adapter
	for _, b := range p.adapters {
		if b.inHost && b.state != Loading {
			others = append(others, b)
		}
	}
	slices.SortFunc(others, func(a, b *adapter) int { return a.comparePopularity(b) })
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
	a.inHost = true
	p.hostBytes += a.layout.Bytes()
}

// dropHost frees the host memory of an adapter.
func (p *Pool) dropHost(a *adapter) {
	if a.inHost {
		a.inHost = false
		p.hostBytes -= a.layout.Bytes()
		p.emit(Drop{a.id})
	}
}
