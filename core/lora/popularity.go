package lora

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// popularity is how often an adapter was requested of late: each request counts 1, and half as much after each half-life. To evict the
// least popular first is LRU when the half-life is short, and LFU when it is long: Lee et al., "LRFU: A Spectrum of
// Policies that Subsumes the Least Recently Used and Least Frequently Used Policies", 2001.
//
// Scores of different times are compared as logarithms of what they are worth at one time, in half-lives, so that they need not be
// brought up to date.
type popularity struct {
	log  float64 // log2 of the score, plus the half-lives from the epoch to last; -Inf before the first request
	last time.Time
}

// requested counts a request.
func (p *popularity) requested(now time.Time, halfLife time.Duration) {
	at := float64(now.UnixNano()) / float64(halfLife)
	high, low := max(p.log, at), min(p.log, at)
	p.log = high + math.Log2(1+math.Exp2(low-high)) // log2(2^high + 2^low)
	p.last = now
}

// compare orders adapters from the least popular.
func (a *adapter) compare(b *adapter) int {
	return cmp.Or(cmp.Compare(a.log, b.log), a.last.Compare(b.last), cmp.Compare(a.id, b.id))
}

// Requested says that a request for an adapter has come in. It counts for the adapter's popularity, and in Stats.
func (p *Pool) Requested(id string, now time.Time) {
	if a, ok := p.adapters[id]; ok {
		a.requested(now, p.cfg.HalfLife)
		if a.resident() {
			p.stats.Hits++
		}
	}
}

// Prefetch begins to load up to n adapters that no request holds: the most popular of those that were requested within the window
// and are not on the device. None that was requested within the window makes room for them, and none that would leave
// after it. It returns which they are.
func (p *Pool) Prefetch(n int, now time.Time) (begun []string) {
	recent := func(a *adapter) bool { return !a.last.IsZero() && now.Sub(a.last) <= p.cfg.Window }
	var wanted []*adapter
	for _, a := range p.adapters {
		if a.state == Absent && !a.gone && recent(a) {
			wanted = append(wanted, a)
		}
	}
	slices.SortFunc(wanted, func(a, b *adapter) int { return b.compare(a) })
	for _, a := range wanted[:min(n, len(wanted))] {
		if !p.load(a, func(b *adapter) bool { return !recent(b) && p.before(b, a) < 0 }) {
			break
		}
		p.stats.Prefetches++
		begun = append(begun, a.id)
	}
	return begun
}
