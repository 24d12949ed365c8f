package device

import (
	"time"

	"troupe/core/hbm"
	"troupe/core/quarantine"
)

// pagesToGrow returns how many of the pages that a pool wants it gets from free memory. It gets none
// while there is other demand for memory, or was within growInterval, and none of those that KV memory
// may claim.
func (m *Memory) pagesToGrow(h *holder, e event) int {
	if !h.resident() || h.adapters.fixed || e.health != quarantine.Healthy || m.demanded(e.now) {
		return 0
	}
	return max(0, min(e.pool.Wanted, m.freePages()-m.lackingKV()))
}

// demanded reports whether memory is needed for anything but growth, or was within growInterval.
func (m *Memory) demanded(now time.Time) bool {
	for _, h := range m.holders {
		if h.adapters.state == Queued || h.adapters.state == Allocating {
			return true
		}
	}
	return m.busy() || now.Sub(m.lastDemand) < growInterval
}

// lackingKV returns the number of pages that must stay free for KV memory, since replicas have less
// than their guaranteed shares, or all of them less than the KV reserve.
func (m *Memory) lackingKV() int {
	leases, needs := m.needs()
	guaranteed := m.emptyBudget().With(needs...).Guaranteed()
	lacking, held := 0, 0
	for i, share := range hbm.Shares(guaranteed, needs) {
		h := m.holders[leases[i]]
		pages := h.kvPages(h.model.Blocks)
		held += pages
		lacking += max(0, hbm.PagesOf(share)-pages)
	}
	return max(lacking, hbm.PagesOf(guaranteed)-held)
}

// keepAttempt gives the lease a number that no change of an earlier incarnation has exceeded.
func (m *Memory) keepAttempt(h *holder, _ event) { h.adapters.attempt = m.attempt }

func (m *Memory) keepPool(h *holder, e event) {
	h.adapters.pool, h.adapters.report, h.adapters.reportedAt = e.replica, e.pool, e.now
}

// correctPool notifies a pool that gets no pages, or has a wrong number, for example after a lost message.
func (m *Memory) correctPool(h *holder, e event) {
	m.keepPool(h, e)
	m.notifyPool(h)
}

func (m *Memory) notifyPool(h *holder) {
	m.emit(NotifyPool{h.adapters.pool, h.lease, h.model.AdapterPages, h.adapters.attempt})
}

// notifyPoolSender notifies a pool whose answer is stale: the change that it answers has ended.
func (m *Memory) notifyPoolSender(h *holder, e event) {
	m.emit(NotifyPool{e.replica, h.lease, h.model.AdapterPages, e.attempt})
}

// growPages leases free pages for adapters.
func (m *Memory) growPages(h *holder, e event) {
	h.adapters.target = h.model.AdapterPages + m.pagesToGrow(h, e)
	m.keepPool(h, e)
	m.attempt++
	h.adapters.attempt = m.attempt
	m.leasePoolPages(h, h.adapters.target)
	m.changePages(h)
}

// leasePoolPages changes the lease for adapters to the given number of pages.
func (m *Memory) leasePoolPages(h *holder, pages int) {
	if _, short := m.ledger.Resize(h.lease, "adapters", int64(pages)*hbm.PageBytes); short != nil {
		panic("device: " + m.cfg.Name + " holds more memory than it has: " + short.Error())
	}
}

func (m *Memory) changePages(h *holder) {
	m.emit(ChangePages{h.lease, h.adapters.target, h.adapters.attempt})
}

// recall asks a pool to give back pages.
func (m *Memory) recall(h *holder, e event) {
	m.attempt++
	h.adapters.attempt, h.adapters.target, h.adapters.until = m.attempt, e.pages, e.until
	m.recallAgain(h, e)
}

func (m *Memory) recallAgain(h *holder, _ event) {
	a := h.adapters
	m.emit(AskPool{a.pool, h.lease, a.target, a.attempt, shrinkTimeout})
}

// collect frees the pages that the pool has given back.
func (m *Memory) collect(h *holder, _ event) { m.changePages(h) }

// collectLate frees the pages that the pool has given back so far. It is not asked again until it reports.
func (m *Memory) collectLate(h *holder, _ event) {
	m.emit(NotGivenBack{h.lease, "adapters are in use, or the pool does not answer"})
	h.adapters.reportedAt = time.Time{}
	m.changePages(h)
}

// pagesChanged updates the ledger and notifies the pool.
func (m *Memory) pagesChanged(h *holder, e event) {
	h.model.AdapterPages = e.pages
	m.leasePoolPages(h, e.pages)
	m.notifyPool(h)
	m.settled(h, e)
}

// pagesNotChanged ends a change that failed.
func (m *Memory) pagesNotChanged(h *holder, e event) {
	m.emit(PagesUnchanged{h.lease, e.failure.Detail})
	m.pagesChanged(h, e)
	m.detectLoss(e.failure)
}

// fixPages marks pages whose number cannot change.
func (m *Memory) fixPages(h *holder, e event) {
	h.adapters.fixed = true
	m.pagesNotChanged(h, e)
}

// adapterPools returns the pages for adapters that can be recalled at the moment, sorted by lease. Pages
// with adapters in use are among them only if inUse is true.
func (m *Memory) adapterPools(inUse bool, now time.Time) (all []hbm.Pool) {
	for _, h := range m.sorted() {
		if !m.recallable(h, now) {
			continue
		}
		p := hbm.Pool{
			Owner: h.lease, Adapters: true, Priority: h.kv.report.Priority, LastUsed: h.kv.report.LastUsed,
			Pages: h.model.AdapterPages, Min: h.model.AdapterMin,
		}
		if !inUse {
			p.Min = max(p.Min, h.adapters.report.Used)
		}
		all = append(all, p)
	}
	return all
}

// recallable reports whether pages for adapters of a lease can be recalled at the moment.
func (m *Memory) recallable(h *holder, now time.Time) bool {
	a := h.adapters
	return h.resident() && a.state == Leased && !a.fixed && !a.reportedAt.IsZero() &&
		now.Sub(a.reportedAt) <= reportMaxAge
}
