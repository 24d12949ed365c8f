package planner

import "time"

// rewind handles a clock that has gone back: remembered times after now become now, and no wait for an answer lasts
// longer than planTimeout.
func (m *Machine) rewind(now time.Time) {
	back := now.Before(m.clock)
	m.clock = now
	if !back {
		return
	}
	m.until, m.lively = soonest(m.until, now.Add(planTimeout)), soonest(m.lively, now.Add(livelyFor))
	m.seen.at = soonest(m.seen.at, now)
	for i := range m.asks {
		m.asks[i].at = soonest(m.asks[i].at, now)
	}
	for name, w := range m.written {
		m.written[name] = written{w.revision, soonest(w.at, now)}
	}
	for name, l := range m.lost {
		l.back = soonest(l.back, now)
		m.lost[name] = l
	}
	for _, all := range []map[string]time.Time{m.active, m.waiting, m.silent} {
		for name, at := range all {
			all[name] = soonest(at, now)
		}
	}
}

func soonest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
