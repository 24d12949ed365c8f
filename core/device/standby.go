package device

import (
	"time"

	"troupe/core/hbm"
)

// standby reports whether the replica of a lease is on standby, as last reported.
func (h *holder) standby() bool { return h.kv.report.Standby }

// keepLevel notes the level of a replica that reports. One that returns from standby lacks its share.
func (m *Memory) keepLevel(h *holder, e event) {
	was := h.standby()
	switch now := e.report.Standby; {
	case was == now:
	case now:
		h.kv.lacks, h.kv.regain = false, time.Time{}
		m.performWeights(m.weights.Standby(h.lease, h.copy, e.now), Failure{}, e.now)
	default:
		h.kv.lacks = true
		m.performWeights(m.weights.Activate(h.lease, h.copy, e.now), Failure{}, e.now)
	}
}

// withdraw takes back the KV memory of replicas on standby beyond their minimum.
func (m *Memory) withdraw(now time.Time) {
	for _, h := range m.sorted() {
		if m.changing() {
			return
		}
		if h.standby() && m.resizable(h, now) && h.model.Blocks > h.kv.report.MinBlocks {
			m.follow(event{
				kind: Chosen, lease: h.lease, now: now, blocks: h.kv.report.MinBlocks, until: now.Add(yieldTimeout),
			})
			m.drain()
		}
	}
}

// restore gives replicas that return from standby their guaranteed share: from free memory, and from
// replicas that have more than theirs.
func (m *Memory) restore(now time.Time) {
	for _, h := range m.sorted() {
		if !h.kv.lacks || !m.resizable(h, now) || m.changing() {
			continue
		}
		have := h.kvPages(h.model.Blocks)
		missing := m.shares()[h.lease].guaranteed - have
		if missing > 0 && !m.makeRoom(h.lease, missing, &h.kv.regain, now) {
			m.drain()
			return
		}
		h.kv.lacks, h.kv.regain = false, time.Time{}
		pages := int64(have + min(missing, m.freePages()))
		blocks := min(int(pages*hbm.PageBytes/h.model.BlockBytes), h.size.MaxBlocks)
		if blocks > h.model.Blocks {
			m.follow(event{kind: Grown, lease: h.lease, now: now, blocks: blocks})
			m.drain()
		}
	}
}
