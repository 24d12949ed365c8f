package planner

import "slices"

// row is one transition. In any state of from, if event on arrives and guard when holds, the
// machine runs do and enters state to.
type row struct {
	from []State
	on   Event
	when guard
	to   State
	do   func(*Machine, event) // nil: ignore the event and report the guard as the reason
	does string                // describes do in the table of doc.go
}

// guard is a condition of a transition. The zero value always holds.
type guard struct {
	name  string
	holds func(*Machine, event) bool
}

// same, as the next state of a row, leaves the state unchanged.
const same State = 255

var (
	idle    = []State{Idle}
	writing = []State{Acquiring, Storing}
)

var (
	always  = guard{}
	leads   = guard{"leads", func(_ *Machine, e event) bool { return e.leads }}
	follows = guard{"does not lead", func(_ *Machine, e event) bool { return !e.leads }}
	busy    = guard{"a write is in flight", func(*Machine, event) bool { return true }}
)

// table is the transition table of doc.go. The first row that fits applies.
var table = []row{
	{idle, Tick, leads, same, (*Machine).observe, "observe"},
	{idle, Tick, always, Acquiring, (*Machine).acquire, "forget the loads; acquire the lease"},
	{writing, Tick, always, same, (*Machine).nothing, "—"},

	{idle, View, follows, same, nil, "ignore"},
	{idle, View, always, same, (*Machine).decide, "decide"},
	{writing, View, busy, same, nil, "ignore"},
	{idle, Decided, always, Storing, (*Machine).store, "scale"},

	{writing, WriteEnd, always, Idle, (*Machine).nothing, "—"},
}

// apply applies the first row that fits an event.
func (m *Machine) apply(e event) {
	for _, r := range table {
		if r.on != e.kind || !slices.Contains(r.from, m.state) || r.when.holds != nil && !r.when.holds(m, e) {
			continue
		}
		if r.do == nil {
			m.emit(Ignored{m.state, e.kind, r.when.name})
			return
		}
		r.do(m, e)
		if r.to != same {
			m.state = r.to
		}
		return
	}
	m.emit(Ignored{m.state, e.kind, "unexpected"})
}
