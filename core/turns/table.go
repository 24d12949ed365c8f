package turns

import "slices"

// row is one transition of a replica. In any state of from, if event on arrives and guard when
// holds, the machine runs do, and the replica enters state to.
type row struct {
	from []State
	on   Event
	when guard
	to   State
	do   func(*Machine, *replica, event) // nil: ignore the event, with the guard as the reason
	does string                          // do, in the table of doc.go
}

// guard is a condition of a transition. The zero value always holds.
type guard struct {
	name  string
	holds func(*Machine, *replica, event) bool
}

// same, as the next state of a row, leaves the state unchanged.
const same State = 255

var (
	present = []State{Idle, Waiting, Holding, Open, Recalled, Overdue}
	holding = []State{Holding, Open, Recalled, Overdue}
	timed   = []State{Holding, Recalled}
)

var (
	always    = guard{}
	more      = guard{"has more work", func(_ *Machine, _ *replica, e event) bool { return e.more }}
	otherTurn = guard{"of another turn", func(_ *Machine, r *replica, e event) bool { return r.turn != e.turn }}
)

// table is the transition table of doc.go. The first row that fits applies.
var table = []row{
	{[]State{Absent}, Joins, always, Idle, nothing, "—"},
	{present, Joins, always, Idle, (*Machine).release, "forget its turn"},

	{[]State{Idle}, Asks, always, Waiting, (*Machine).wait, "recall an open turn"},

	{holding, Ends, otherTurn, same, nil, "ignore"},
	{holding, Ends, more, Waiting, (*Machine).endAndWait, "count the time used; recall an open turn"},
	{holding, Ends, always, Idle, (*Machine).end, "count the time used"},

	{timed, Fires, otherTurn, same, nil, "ignore"},
	{timed, Fires, always, Overdue, (*Machine).overdue, "report it"},

	{present, Parts, always, Absent, (*Machine).release, "—"},
}

// on applies the first row that fits an event, grants the next turn if none is in progress, and
// returns the effects.
func (m *Machine) on(e event) []Effect {
	r := m.get(e.name)
	if r == nil {
		r = &replica{name: e.name, used: make(map[Class]float64)}
	}
	row := m.find(r, e)
	if row == nil {
		return []Effect{Ignored{e.name, r.state, e.kind, "unexpected"}}
	}
	if row.do == nil {
		return []Effect{Ignored{e.name, r.state, e.kind, row.when.name}}
	}
	row.do(m, r, e)
	if e.kind == Joins {
		r.weight = e.weight
		if r.weight <= 0 {
			r.weight = 1
		}
	}
	m.enter(r, row.to)
	m.grantNext(e.now)
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *Machine) find(r *replica, e event) *row {
	for i := range table {
		row := &table[i]
		if row.on != e.kind || !slices.Contains(row.from, r.state) {
			continue
		}
		if row.when.holds == nil || row.when.holds(m, r, e) {
			return row
		}
	}
	return nil
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
