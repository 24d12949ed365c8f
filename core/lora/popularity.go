package lora

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// popularity measures how often an adapter was requested recently: each request counts 1, and half
// as much after each half-life. Evicting the least popular adapter approximates LRU for a short
// half-life and LFU for a long one (Lee et al., "LRFU: A Spectrum of Policies that Subsumes the
// Least Recently Used and Least Frequently Used Policies", 2001).
//
// Scores are stored as logarithms of their value at one common time, in half-lives. They can be
// compared without updating them.
type popularity struct {
	log  float64 // log2 of the score, plus the half-lives from the epoch to last; -Inf before the first request
	last time.Time
}

// add counts a request.
func (p *popularity) add(now time.Time, halfLife time.Duration) {
	at := float64(now.UnixNano()) / float64(halfLife)
	high, low := max(p.log, at), min(p.log, at)
	p.log = high + math.Log2(1+math.Exp2(low-high)) // log2(2^high + 2^low)
	p.last = now
}

// comparePopularity orders adapters from the least popular.
func (a *adapter) comparePopularity(b *adapter) int {
	return cmp.Or(cmp.Compare(a.log, b.log), a.last.Compare(b.last), cmp.Compare(a.id, b.id))
}

// Requested counts a request for an adapter, in its popularity and in Stats.
func (p *Pool) Requested(id string, now time.Time) {
	if a, ok := p.adapters[id]; ok && a.state != Inspecting {
		a.add(now, p.cfg.HalfLife)
		p.requested = true
		if a.resident() {
			p.stats.Hits++
		}
	}
}

// HalfLife is the default of Config.HalfLife.
const HalfLife = time.Minute

const (
	// TickEvery is the time between two calls of Tick.
	TickEvery = 100 * time.Millisecond
	// PrefetchAtOnce is the number of adapters that a Tick prefetches, at most.
	PrefetchAtOnce = 10
)

// Wanted is an adapter that the planner wants on the device, since it is popular in the cluster.
type Wanted struct {
	ID string
	// Score is the popularity that the adapter would have here with the replica's share of the cluster's
	// requests.
	Score float64
}

// Want replaces the adapters that the planner wants on the device; see Inspect for those that the pool does
// not know. The next Tick prefetches them. One for which there is no room then, or which is evicted later, is
// not loaded before it is wanted again.
func (p *Pool) Want(all []Wanted, now time.Time) {
	for _, a := range p.adapters {
		a.wanted = false
	}
	for _, w := range all {
		a, known := p.adapters[w.ID]
		if !known || a.deleted || a.resident() {
			continue
		}
		a.wanted, p.requested = true, true
		a.raise(w.Score, now, p.cfg.HalfLife)
	}
}

// raise sets a popularity to at least a score. It counts no request.
func (p *popularity) raise(score float64, now time.Time, halfLife time.Duration) {
	if score > 0 {
		p.log = max(p.log, math.Log2(score)+float64(now.UnixNano())/float64(halfLife))
	}
}

// Tick prefetches popular adapters if one was requested or wanted since the last call; see Prefetch.
func (p *Pool) Tick(now time.Time) (started []string) {
	if p.requested {
		p.requested = false
		started = p.Prefetch(PrefetchAtOnce, now)
		for _, a := range p.adapters {
			p.requested = p.requested || a.wanted && a.state == Absent
		}
	}
	return started
}

// Prefetch starts loading up to n adapters that no request holds. It takes the most popular of
// those requested within the window, or wanted by the planner, that are not on the device. It does not
// evict adapters that were requested within the window or that rank higher. It returns the adapters being
// loaded.
func (p *Pool) Prefetch(n int, now time.Time) (started []string) {
	var wanted []*adapter
	for _, a := range p.adapters {
		if a.state == Absent && !a.deleted && (a.wanted || p.recent(a, now)) {
			wanted = append(wanted, a)
		}
	}
	slices.SortFunc(wanted, func(a, b *adapter) int { return b.comparePopularity(a) })
	for _, a := range wanted[:min(n, len(wanted))] {
		a.wanted = false
		if p.handle(&event{kind: onPrefetch, a: a, now: now}); a.state == Absent {
			break
		}
		p.stats.Prefetches++
		started = append(started, a.id)
	}
	return started
}

// recent reports whether an adapter was requested within the window.
func (p *Pool) recent(a *adapter, now time.Time) bool {
	return !a.last.IsZero() && now.Sub(a.last) <= p.cfg.Window
}

// mayPrefetchEvict reports whether an idle adapter may be evicted for a prefetch.
func (p *Pool) mayPrefetchEvict(a *adapter, e *event) bool {
	return !p.recent(a, e.now) && p.evictBefore(a, e.a) < 0
}
