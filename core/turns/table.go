package turns

import (
	"slices"

	"troupe/core/table"
)

type (
	condition = func(*Machine, *replica, event) bool
	action    = func(*Machine, *replica, event)

	row   = table.Row[State, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	present = []State{Idle, Waiting, Holding, Open, Recalled, Overdue, Expected}
	holding = []State{Holding, Open, Recalled, Overdue}
	timed   = []State{Holding, Recalled}
	asked   = []State{Waiting, Holding, Open, Recalled, Overdue}
)

var (
	always    = guard{}
	more      = guard{"has more work", func(_ *Machine, _ *replica, e event) bool { return e.more }}
	repeated  = guard{"repeated", func(*Machine, *replica, event) bool { return true }}
	otherTurn = guard{"of another turn", func(_ *Machine, r *replica, e event) bool { return r.turn != e.turn }}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("turns", []row{
	{[]State{Absent}, Finds, always, Expected, (*Machine).expect, "set the timer"},
	{[]State{Absent}, Joins, always, Idle, nothing, "—"},
	{present, Joins, always, Idle, (*Machine).release, "forget its turn"},

	{[]State{Idle}, Asks, always, Waiting, (*Machine).wait, "recall an open turn"},
	{asked, Asks, repeated, same, nil, "ignore"},

	{holding, Ends, otherTurn, same, nil, "ignore"},
	{holding, Ends, more, Waiting, (*Machine).endAndWait, "count the time used; recall an open turn"},
	{holding, Ends, always, Idle, (*Machine).end, "count the time used"},

	{[]State{Holding, Recalled, Expected}, Fires, otherTurn, same, nil, "ignore"},
	{timed, Fires, always, Overdue, (*Machine).overdue, "report it"},
	{[]State{Expected}, Fires, always, Absent, (*Machine).lost, "report it"},

	{present, Parts, always, Absent, (*Machine).release, "—"},
})

// on applies the first row that fits an event, grants the next turn if none is in progress, and
// returns the effects.
func (m *Machine) on(e event) []Effect {
	r := m.get(e.name)
	if r == nil {
		r = &replica{name: e.name, used: make(map[Class]float64)}
	}
	row := rows.Find(r.state, e.kind, func(holds condition) bool { return holds(m, r, e) })
	if row == nil {
		return []Effect{Ignored{e.name, r.state, e.kind, "unexpected"}}
	}
	if row.Do == nil {
		return []Effect{Ignored{e.name, r.state, e.kind, row.When.Name}}
	}
	row.Do(m, r, e)
	m.enter(r, row.To)
	m.grantNext(e.now)
	effects := m.effects
	m.effects = nil
	return effects
}

// enter puts a replica into a state, and adds it to the device or removes it.
func (m *Machine) enter(r *replica, to State) {
	i, found := m.index(r.name)
	if r.state = to; to == Absent && found {
		m.replicas = slices.Delete(m.replicas, i, i+1)
	} else if to != Absent && !found {
		m.replicas = slices.Insert(m.replicas, i, r)
	}
}
