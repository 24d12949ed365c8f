package planner

import "troupe/core/table"

type (
	condition = func(*Machine, event) bool
	action    = func(*Machine, event)

	row   = table.Row[State, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

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

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("planner", []row{
	{idle, Tick, leads, same, (*Machine).observe, "observe"},
	{idle, Tick, always, Acquiring, (*Machine).acquire, "forget the loads; acquire the lease"},
	{writing, Tick, always, same, (*Machine).nothing, "—"},

	{idle, View, follows, same, nil, "ignore"},
	{idle, View, always, same, (*Machine).decide, "decide"},
	{writing, View, busy, same, nil, "ignore"},
	{idle, Decided, always, Storing, (*Machine).store, "scale"},

	{writing, WriteEnd, always, Idle, (*Machine).nothing, "—"},
})

// apply applies the first row that fits an event.
func (m *Machine) apply(e event) {
	r := rows.Find(m.state, e.kind, func(holds condition) bool { return holds(m, e) })
	switch {
	case r == nil:
		m.emit(Ignored{m.state, e.kind, "unexpected"})
		return
	case r.Do == nil:
		m.emit(Ignored{m.state, e.kind, r.When.Name})
		return
	}
	r.Do(m, e)
	if r.To != same {
		m.state = r.To
	}
}
