package device

import "troupe/core/hbm"

func (m *Memory) freePages() int { return int(m.ledger.Free() / hbm.PageBytes) }

// shortOf returns the shortage if the given number of pages is not free, or nil.
func (m *Memory) shortOf(pages int) *hbm.Shortage {
	if pages <= m.freePages() {
		return nil
	}
	return &hbm.Shortage{Need: int64(pages) * hbm.PageBytes, Free: m.ledger.Free()}
}

// share is a lease's share of the memory for KV blocks, in pages.
type share struct {
	guaranteed int // never yielded
	full       int // guaranteed pages, and those that it gets if memory is left
}

func (m *Memory) shares() map[string]share {
	leases, needs := m.needs()
	b := m.emptyBudget().With(needs...)
	for i, lease := range leases {
		if h := m.holders[lease]; h.standby() {
			least := int64(h.kvPages(h.kv.report.MinBlocks)) * hbm.PageBytes
			needs[i].Min, needs[i].MinAlone, needs[i].Max = least, least, least
		}
	}
	guaranteed, full := hbm.Shares(b.Guaranteed(), needs), hbm.Shares(b.KV(), needs)
	shares := make(map[string]share, len(leases))
	for i, lease := range leases {
		shares[lease] = share{hbm.PagesOf(guaranteed[i]), hbm.PagesOf(full[i])}
	}
	return shares
}

// needs returns the leases that count in the budget, sorted, and the memory needs of each.
func (m *Memory) needs() (leases []string, needs []hbm.Need) {
	for _, h := range m.sorted() {
		if h.budgeted() {
			leases, needs = append(leases, h.lease), append(needs, h.need())
		}
	}
	return leases, needs
}

// emptyBudget returns the budget without the needs of the leases. It counts the weights in use;
// others can be evicted.
func (m *Memory) emptyBudget() hbm.Budget {
	b := hbm.NewBudget(m.cfg.Total, m.cfg.KVReserve)
	b.Fixed = m.weights.Counted()
	return b
}

func (m *Memory) budget() hbm.Budget {
	_, needs := m.needs()
	return m.emptyBudget().With(needs...)
}

// overloadOf returns the figures of a load that was admitted and lacks pages.
func (m *Memory) overloadOf(h *holder, missing int) *hbm.Overload {
	need, others := h.need(), m.emptyBudget()
	if c, _ := m.weights.Copy(h.copy); len(c.Users) == 1 {
		need.Fixed += h.weightBytes()
		others.Fixed -= h.weightBytes()
	}
	for _, o := range m.sorted() {
		if o != h && o.budgeted() {
			others = others.With(o.need())
		}
	}
	return &hbm.Overload{Need: need, Budget: others, Short: int64(missing) * hbm.PageBytes}
}

// blocksAlone returns the number of KV blocks that a model would have if it were the only one on
// the device.
func (m *Memory) blocksAlone(h *holder) int {
	alone := (m.emptyBudget().Total - h.need().Fixed - h.weightBytes()) / max(1, h.model.BlockBytes)
	return min(h.size.MaxBlocks, int(alone))
}
