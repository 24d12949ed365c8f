package device

import (
	"time"

	"troupe/core/hbm"
	"troupe/core/residency"
)

// Status describes the memory of a device.
type Status struct {
	Total, Free int64 // bytes
	Yieldable   int64 // bytes that replicas could yield now, and those of unused weights
	Leases      []hbm.Lease
	AdapterMin  map[string]int // by lease: pages for adapters that are never asked back
	Budget      hbm.Budget
	Replicas    []string   // leases that count in the budget
	Needs       []hbm.Need // of these, without their weights
	Weights     []residency.Copy
}

// Status returns the current state of the memory.
func (m *Memory) Status(now time.Time) Status {
	s := Status{Total: m.ledger.Total(), Free: m.ledger.Free(), Leases: m.ledger.Leases(), Budget: m.budget()}
	s.Yieldable = m.weights.Reclaimable()
	for _, p := range append(m.adapterPools(true, now), m.pools(now)...) {
		s.Yieldable += int64(max(0, p.Pages-p.Min)) * hbm.PageBytes
	}
	s.AdapterMin = make(map[string]int)
	for lease, h := range m.holders {
		s.AdapterMin[lease] = h.model.AdapterMin
	}
	s.Replicas, s.Needs = m.needs()
	s.Weights = m.Copies()
	return s
}

// Copies returns the copies of weights, the oldest one first.
func (m *Memory) Copies() []residency.Copy { return m.weights.Copies() }

// Empty reports whether no model uses the memory or is about to.
func (m *Memory) Empty() bool { return len(m.holders) == 0 && m.weights.Empty() }

// Has reports whether any lease is in one of these phases.
func (m *Memory) Has(phases ...Phase) bool {
	for _, h := range m.holders {
		for _, p := range phases {
			if h.phase == p {
				return true
			}
		}
	}
	return false
}
