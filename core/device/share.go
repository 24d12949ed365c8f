package device

import (
	"slices"
	"time"

	"troupe/core/hbm"
	"troupe/core/quarantine"
)

const (
	growInterval = time.Second     // without other demand, before free memory is distributed
	reportMaxAge = 3 * time.Second // a replica without a newer report is not asked to shrink
)

// tryWaiting tries the loads that wait for memory, oldest first, then the requests for adapters.
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
}

// makeRoom tries to free pages for a lease by having replicas yield KV memory. It reports true if
// the pages are free, if replicas cannot yield enough, or if the deadline has passed; the caller
// checks the free pages. It reports false while replicas yield, and sets the deadline of the wait.
func (m *Memory) makeRoom(lease string, need int, deadline *time.Time, now time.Time) bool {
	free := m.freePages()
	if need <= free || !deadline.IsZero() && !now.Before(*deadline) {
		return true
	}
	if deadline.IsZero() {
		*deadline = now.Add(yieldTimeout)
	}
	if m.changing() {
		return false
	}
	pools := m.pools(now)
	yields, why, ok := hbm.Yield(need, free, pools)
	if !ok && m.mayYieldLater(need-free, pools, deadline) {
		return false
	}
	m.emit(ShortOfMemory{lease, ok, why})
	if !ok {
		return true
	}
	for _, y := range yields {
		h := m.holders[y.Owner]
		left := int64(h.kvPages(h.model.Blocks)-y.Pages) * hbm.PageBytes
		m.follow(event{
			kind: Chosen, lease: y.Owner, now: now, blocks: int(left / h.model.BlockBytes), until: *deadline,
		})
	}
	return false
}

// changing reports whether the KV memory of any lease is being changed.
func (m *Memory) changing() bool {
	for _, h := range m.holders {
		if h.kv.state == Yielding || h.kv.state == Resizing {
			return true
		}
	}
	return false
}

// pools returns the KV memory that can be resized now, sorted by lease.
func (m *Memory) pools(now time.Time) (all []hbm.Pool) {
	shares := m.shares()
	for _, h := range m.sorted() {
		if !h.resident() || h.kv.state != Steady || h.kv.fixed || h.kv.reportedAt.IsZero() ||
			now.Sub(h.kv.reportedAt) > reportMaxAge {
			continue
		}
		r, pages := h.kv.report, h.kvPages(h.model.Blocks)
		all = append(all, hbm.Pool{
			Owner: h.lease, Priority: r.Priority, LastUsed: r.LastUsed, Pages: pages,
			Min: max(h.kvPages(r.MinBlocks), shares[h.lease].guaranteed), Share: shares[h.lease].full,
			Wanted: h.kvPages(h.model.Blocks+r.WantedBlocks) - pages,
		})
	}
	return all
}

// mayYieldLater reports whether the missing pages may become free without a shrink now: memory is
// being freed, or replicas without a recent report could yield, because they are loading, or about
// to report. While one of them loads, the wait does not time out.
func (m *Memory) mayYieldLater(missing int, pools []hbm.Pool, deadline *time.Time) bool {
	shares, beingLoaded := m.shares(), false
	could := make(map[string]int)
	for _, l := range m.ledger.Leases() {
		switch h := m.holders[l.Owner]; {
		case h.phase == Freeing:
			could[l.Owner] += len(l.Pages)
		case l.Kind == "kv" && !h.kv.fixed:
			could[l.Owner] = max(0, len(l.Pages)-shares[l.Owner].guaranteed)
			beingLoaded = beingLoaded || h.phase == Loading && could[l.Owner] > 0
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

// distribute gives free memory to replicas below their share, and then to those that want more,
// after growInterval without other demand.
func (m *Memory) distribute(health quarantine.State, now time.Time) {
	if health != quarantine.Healthy || m.busy() {
		m.lastDemand = now
	}
	if now.Sub(m.lastDemand) < growInterval {
		return
	}
	for _, g := range hbm.Grow(m.freePages(), m.pools(now)) {
		h := m.holders[g.Owner]
		pages := h.kvPages(h.model.Blocks) + g.Pages
		most := max(h.model.Blocks+h.kv.report.WantedBlocks, h.size.MaxBlocks)
		blocks := min(int(int64(pages)*hbm.PageBytes/h.model.BlockBytes), most)
		if blocks > h.model.Blocks {
			m.follow(event{kind: Grown, lease: g.Owner, now: now, blocks: blocks})
		}
	}
	m.drain()
}

// busy reports whether memory is being loaded, freed or resized.
func (m *Memory) busy() bool {
	for _, h := range m.holders {
		if h.phase != Resident {
			return true
		}
	}
	return m.changing()
}

func (m *Memory) freePages() int { return int(m.ledger.Free() / hbm.PageBytes) }

// shortOf returns the shortage of pages; nil if they are free.
func (m *Memory) shortOf(pages int) *hbm.Shortage {
	if pages <= m.freePages() {
		return nil
	}
	return &hbm.Shortage{Need: int64(pages) * hbm.PageBytes, Free: m.ledger.Free()}
}

// share is a lease's share of the memory for KV blocks, in pages.
type share struct {
	guaranteed int // never yielded
	full       int // guaranteed, and pages that it gets when there is room
}

func (m *Memory) shares() map[string]share {
	leases, needs := m.needs()
	b := m.emptyBudget().With(needs...)
	guaranteed, full := hbm.Shares(b.Guaranteed(), needs), hbm.Shares(b.KV(), needs)
	shares := make(map[string]share, len(leases))
	for i, lease := range leases {
		shares[lease] = share{hbm.PagesOf(guaranteed[i]), hbm.PagesOf(full[i])}
	}
	return shares
}

// needs returns the leases that count in the budget, sorted, and the memory that each needs.
func (m *Memory) needs() (leases []string, needs []hbm.Need) {
	for _, h := range m.sorted() {
		if h.budgeted() {
			leases, needs = append(leases, h.lease), append(needs, h.need())
		}
	}
	return leases, needs
}

func (m *Memory) emptyBudget() hbm.Budget { return hbm.NewBudget(m.cfg.Total, m.cfg.KVReserve) }

func (m *Memory) budget() hbm.Budget {
	_, needs := m.needs()
	return m.emptyBudget().With(needs...)
}

// blocksAlone returns the number of KV blocks that a model would have as the only one on the
// device.
func (m *Memory) blocksAlone(h *holder) int {
	alone := (m.emptyBudget().Total - h.need().Fixed) / max(1, h.model.BlockBytes)
	return min(h.size.MaxBlocks, int(alone))
}
