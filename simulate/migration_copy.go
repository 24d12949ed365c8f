package simulate

import (
	"time"

	"troupe/core/migrate"
)

// silentAfter is how long the data plane waits for another node. Then the send fails.
const silentAfter = 15 * time.Second

// sendBlocks copies blocks to the target. They have arrived when the copy has ended.
func (m *migration) sendBlocks(e migrate.SendBlocks) {
	l := m.leaving[e.Key]
	to := m.peer(l.to)
	sent := func(ok bool) func(time.Time) {
		return func(now time.Time) {
			if l.sending = nil; !ok {
				m.perform(m.source.SendFailed(e.Key, "the blocks were not sent", now))
				return
			}
			m.perform(m.source.Sent(e.Key, m.describe([]string{e.ID})[0], now))
		}
	}
	if to == nil || to.arriving[e.Key] == nil {
		m.post(sent(false))
		return
	}
	a := to.arriving[e.Key]
	l.sending = m.sim.copies.begin(int64(len(e.Blocks))*int64(m.blockBytes()), func(ok bool) {
		a.receiving = nil
		if ok = ok && !to.closed && to.arriving[e.Key] == a; ok {
			a.arrived(e.Indices, m.sim.key.at)
		}
		m.event(sent(ok))()
	}, m.over(to.replica)...)
	if a.receiving = l.sending; a.receiving != nil {
		a.receiving.stalls = silentAfter
	}
}

// over returns what a copy to another replica uses: on the same device its link only once.
func (m *migration) over(to *replica) (all []*pipe) {
	all = append(all, m.device.link)
	if to.device != m.device {
		all = append(all, to.device.link)
	}
	if from := m.device.node; from != to.device.node {
		all = append(all, m.sim.network(from, to.device.node)...)
	}
	return all
}

// reject ends the copy into the reserved blocks, if there is one. A source that is not reached does
// not learn that.
func (m *migration) reject(a *arriving) {
	if m.peer(a.Source) != nil {
		m.sim.copies.abort(a.receiving)
	}
}

// closeSink rejects further blocks.
func (m *migration) closeSink(e migrate.CloseSink) {
	a := m.arriving[e.Key]
	m.reject(a)
	m.post(func(now time.Time) {
		m.perform(m.target.Closed(e.Key, a.complete(e.Blocks), m.own(), now))
		m.replica.perform(m.machine.ReportSoon(), now)
	})
}

func (a *arriving) arrived(blocks []uint32, now time.Time) {
	for _, i := range blocks {
		a.received[i] = true
	}
	a.heard = now
}

// lastHeard returns when the last bytes arrived.
func (a *arriving) lastHeard(now time.Time) time.Time {
	if a.receiving != nil && a.receiving.rate > 0 {
		return now
	}
	return a.heard
}

// complete reports whether the first blocks of the sequence have arrived.
func (a *arriving) complete(blocks int) bool {
	for i := a.reservation.Resident; i < blocks; i++ {
		if !a.received[uint32(i)] {
			return false
		}
	}
	return true
}
