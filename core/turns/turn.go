package turns

import (
	"math"
	"slices"
	"time"
)

func nothing(*Machine, *replica, event) {}

// wait notes what a replica asks for, after a pause.
func (m *Machine) wait(r *replica, e event) {
	c := e.request.Class
	r.used[c] = max(r.used[c], m.level[c])
	m.queue(r, e)
}

// queue notes what a replica asks for, and recalls a turn that is open.
func (m *Machine) queue(r *replica, e event) {
	r.request, r.since = e.request, e.now
	h := m.holder
	if h == nil || h.state != Open {
		return
	}
	h.state, h.since = Recalled, e.now // no replica waited for its steps before
	m.emit(Recall{h.name, h.turn})
	m.emit(SetTimer{h.name, h.turn, m.limit(h)})
}

// end counts the time that a replica used while others waited, also if it was overdue.
func (m *Machine) end(r *replica, e event) {
	if r.state != Open {
		r.used[r.request.Class] += min(max(e.used, 0), e.now.Sub(r.since)).Seconds() / r.weight()
	}
	m.release(r, e)
}

// endAndWait ends a turn and asks for the next one.
func (m *Machine) endAndWait(r *replica, e event) {
	m.end(r, e)
	m.queue(r, e)
}

// overdue reports a turn that does not end, and lets others run.
func (m *Machine) overdue(r *replica, e event) {
	m.emit(ReportOverdue{r.name, r.turn, e.now.Sub(r.since), r.request.Estimate})
	m.holder = nil
}

// expect waits for a replica to join.
func (m *Machine) expect(r *replica, e event) {
	r.since = e.now
	m.emit(SetTimer{r.name, 0, m.limit(r)})
}

// lost reports a replica that was expected and does not join.
func (m *Machine) lost(r *replica, e event) {
	m.emit(ReportOverdue{r.name, 0, e.now.Sub(r.since), 0})
}

// release takes a replica's turn away, if it has one.
func (m *Machine) release(r *replica, _ event) {
	if m.holder == r {
		m.holder = nil
	}
}

// limit returns how long a replica's turn of one step may last.
func (m *Machine) limit(r *replica) time.Duration {
	return max(m.cfg.MinOverdue, time.Duration(m.cfg.OverdueAfter*float64(r.request.Estimate)))
}

// expects reports whether a replica is expected.
func (m *Machine) expects() bool {
	return slices.ContainsFunc(m.replicas, func(r *replica) bool { return r.state == Expected })
}

// grantNext grants the next turn, if none is in progress and a replica waits.
func (m *Machine) grantNext(now time.Time) {
	if m.holder != nil || m.expects() {
		return
	}
	r, why := m.choose(now)
	if r == nil {
		return
	}
	m.turns++
	m.raise(r.request.Class)
	waited := now.Sub(r.since)
	m.holder, r.turn, r.since = r, m.turns, now
	r.turns, r.waited = r.turns+1, r.waited+waited
	r.state = Holding
	if why == Alone {
		r.state = Open
	}
	m.emit(Grant{r.name, r.turn, r.state == Open, why, waited})
	if r.state == Holding {
		m.emit(SetTimer{r.name, r.turn, m.limit(r)})
	}
}

// raise advances the virtual time of a class to that of the replica furthest behind among those that
// wait in it.
func (m *Machine) raise(c Class) {
	least := math.Inf(1)
	for _, r := range m.replicas {
		if r.state == Waiting && r.request.Class == c {
			least = min(least, r.used[c])
		}
	}
	m.level[c] = max(m.level[c], least)
}
