package device

import (
	"time"

	"troupe/core/hbm"
	"troupe/core/quarantine"
)

const growInterval = time.Second // time without other demand before free memory is distributed

// distribute gives replicas that return from standby their guaranteed share. Once there was no other
// demand for growInterval, it gives free memory to the replicas below their share, and then to those
// that want more.
func (m *Memory) distribute(health quarantine.State, now time.Time) {
	if health != quarantine.Healthy || m.busy() {
		m.lastDemand = now
	} else {
		m.restore(now)
	}
	if now.Sub(m.lastDemand) < growInterval {
		return
	}
	pools := m.pools(now)
	m.evictSpare(pools, now)
	for _, g := range hbm.Grow(m.freePages(), pools) {
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

// evictSpare evicts weights that no deployment wants if KV memory can use their memory.
func (m *Memory) evictSpare(pools []hbm.Pool, now time.Time) {
	lacking := 0
	for _, p := range pools {
		lacking += max(0, p.Share-p.Pages) + p.Wanted
	}
	m.performWeights(m.weights.MakeRoom(lacking, m.freePages(), true, "KV memory needs it", now), Failure{}, now)
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
