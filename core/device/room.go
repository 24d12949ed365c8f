package device

import (
	"slices"
	"time"

	"troupe/core/hbm"
)

const reportMaxAge = 3 * time.Second // a replica whose last report is older is not asked to shrink

// tryWaiting tries the waiting loads, oldest first, and then the requests for adapter memory. Then it
// takes memory back from replicas on standby.
func (m *Memory) tryWaiting(now time.Time) {
	all := m.sorted()
	loads := slices.SortedStableFunc(slices.Values(all), func(a, b *holder) int { return a.started.Compare(b.started) })
	for _, h := range loads {
		if h.phase == Waiting {
			m.tryLoad(h, now)
			m.drain()
		}
	}
	for _, h := range all {
		if h.adapters.state == Queued {
			m.tryAdapters(h, now)
			m.drain()
		}
	}
	m.withdraw(now)
}

// makeRoom frees pages for a lease: it evicts unused weights, and if those do not suffice, it also asks replicas to
// yield KV memory or adapter pages. It returns false if the caller must wait: for an eviction, a yield, a change in
// progress, or replicas that may yield later. The first call that lacks pages sets the deadline. It returns true
// once waiting is pointless: the pages are free, replicas cannot yield enough, or the deadline has passed. The
// caller must then check the free pages.
func (m *Memory) makeRoom(lease string, need int, deadline *time.Time, now time.Time) bool {
	free := m.freePages()
	if need <= free || !deadline.IsZero() && !now.Before(*deadline) {
		return true
	}
	if deadline.IsZero() {
		*deadline = now.Add(yieldTimeout)
	}
	unused := int(m.weights.Reclaimable() / hbm.PageBytes)
	if need <= free+unused {
		m.evict(lease, need, now)
		return false
	}
	if m.changing() {
		return false
	}
	pools := m.pools(now)
	yields, why, ok := hbm.Yield(need, free+unused, append(m.adapterPools(false, now), pools...))
	if !ok { // adapters in use are evicted when their sequences have ended
		yields, why, ok = hbm.Yield(need, free+unused, append(m.adapterPools(true, now), pools...))
	}
	if !ok && m.mayYieldLater(need-free-unused, pools, deadline) {
		return false
	}
	m.emit(ShortOfMemory{lease, ok, why})
	if !ok {
		return true
	}
	m.evict(lease, need, now)
	for _, y := range yields {
		h := m.holders[y.Owner]
		if y.Adapters { // pages that were given back by then are free before the wait ends
			m.follow(event{
				kind: PoolChosen, lease: y.Owner, now: now, pages: h.model.AdapterPages - y.Pages,
				until: deadline.Add(-shrinkTimeout),
			})
			continue
		}
		left := int64(h.kvPages(h.model.Blocks)-y.Pages) * hbm.PageBytes
		m.follow(event{
			kind: Chosen, lease: y.Owner, now: now, blocks: int(left / h.model.BlockBytes), until: *deadline,
		})
	}
	return false
}

// evict evicts weights that no replica uses, as far as a lease needs their memory.
func (m *Memory) evict(lease string, need int, now time.Time) {
	why := lease + " needs the memory"
	m.performWeights(m.weights.MakeRoom(need, m.freePages(), false, why, now), Failure{}, now)
}

// changing reports whether the KV memory of any lease is being changed, or pages for adapters are being
// taken back.
func (m *Memory) changing() bool {
	for _, h := range m.holders {
		if h.kv.state == Yielding || h.kv.state == Resizing || h.adapters.takenBack(h.model.AdapterPages) {
			return true
		}
	}
	return false
}

// takenBack reports whether some of the pages are being taken back.
func (a adapterMemory) takenBack(pages int) bool {
	return a.state == Recalled || a.state == Changing && a.target < pages
}

// pools returns the KV memory that can be resized at the moment, sorted by lease.
func (m *Memory) pools(now time.Time) (all []hbm.Pool) {
	shares := m.shares()
	for _, h := range m.sorted() {
		if !m.resizable(h, now) {
			continue
		}
		r, pages := h.kv.report, h.kvPages(h.model.Blocks)
		p := hbm.Pool{
			Owner: h.lease, Priority: r.Priority, LastUsed: r.LastUsed, Pages: pages,
			Min: max(h.kvPages(r.MinBlocks), shares[h.lease].guaranteed), Share: shares[h.lease].full,
			Wanted: h.kvPages(h.model.Blocks+r.WantedBlocks) - pages,
		}
		if h.standby() {
			p.Share, p.Wanted = 0, 0
		}
		all = append(all, p)
	}
	return all
}

// resizable reports whether the KV memory of a lease can be resized at the moment.
func (m *Memory) resizable(h *holder, now time.Time) bool {
	return h.resident() && h.kv.state == Steady && !h.kv.fixed && !h.kv.reportedAt.IsZero() &&
		now.Sub(h.kv.reportedAt) <= reportMaxAge
}

// mayYieldLater reports whether the missing pages may become free later without a shrink now:
// memory is being freed, or replicas that are loading or have not reported recently could yield.
// While one of them is loading, the wait does not time out.
func (m *Memory) mayYieldLater(missing int, pools []hbm.Pool, deadline *time.Time) bool {
	shares, beingLoaded := m.shares(), false
	could := make(map[string]int)
	for _, l := range m.ledger.Leases() {
		switch h := m.holders[l.Owner]; {
		case h == nil: // weights
		case h.phase == Freeing:
			could[l.Owner] += len(l.Pages)
		case l.Kind == "kv" && !h.kv.fixed:
			could[l.Owner] = max(0, len(l.Pages)-shares[l.Owner].guaranteed)
			beingLoaded = beingLoaded || (h.phase == Loading || h.phase == Opening) && could[l.Owner] > 0
		case l.Kind == "adapters" && !h.adapters.fixed && h.resident():
			could[l.Owner+" adapters"] = max(0, h.model.AdapterPages-h.model.AdapterMin)
		}
	}
	for _, p := range pools {
		could[p.Owner] = max(0, p.Pages-p.Min)
	}
	for _, pages := range could {
		missing -= pages
	}
	if missing > 0 {
		return false
	}
	if beingLoaded {
		*deadline = time.Time{}
	}
	return true
}
