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
	idle      = []State{Idle}
	acquiring = []State{Acquiring}
	observing = []State{Observing}
	surveying = []State{Surveying}
	planning  = []State{Planning}
	storing   = []State{Storing}
	inRound   = []State{Observing, Surveying, Planning, Storing}
	anyState  = []State{Idle, Acquiring, Observing, Surveying, Planning, Storing}
	busy      = []State{Acquiring, Observing, Surveying, Planning, Storing}
)

var (
	always  = guard{}
	follows = guard{"does not lead", func(_ *Machine, e event) bool { return e.Term == 0 }}
	fenced  = guard{"its term has ended", func(m *Machine, e event) bool { return e.Term != m.term }}
	late    = guard{"no answer in time", func(m *Machine, e event) bool { return e.Time.After(m.until) }}
	other   = guard{"of another round", func(m *Machine, e event) bool { return e.round != m.round.number }}
	failed  = guard{"no answer", func(_ *Machine, e event) bool { return e.failed }}
	behind  = guard{"lacks own writes", func(_ *Machine, e event) bool { return e.behind }}
	deposed = guard{"a later term has planned", func(_ *Machine, e event) bool { return e.deposed }}
	rests   = guard{"no plan is due or asked for", func(m *Machine, e event) bool {
		return len(e.causes) == 0 && len(m.asks) == 0
	}}
	settled = guard{"nothing to store", func(m *Machine, _ event) bool {
		return m.round.dry || len(m.round.writes) == 0
	}}
	refused = guard{"it was not stored", func(_ *Machine, e event) bool { return e.outcome != Done }}
	ends    = guard{"last one, paused, or 1 s passed", func(m *Machine, e event) bool {
		return e.Paused || len(m.round.writes) == 0 || e.Time.Sub(m.round.step) >= storeFor
	}}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("planner", []row{
	{idle, Tick, follows, Acquiring, (*Machine).acquire, "forget all plans; acquire the lease"},
	{idle, Tick, always, Observing, (*Machine).observe, "observe"},
	{acquiring, Tick, late, Idle, (*Machine).nothing, "—"},
	{inRound, Tick, fenced, Idle, (*Machine).abandon, "forget all plans; deny questions"},
	{inRound, Tick, late, Idle, (*Machine).giveUp, "end the round"},
	{busy, Tick, always, same, (*Machine).nothing, "—"},

	{anyState, Asked, follows, same, (*Machine).deny, "deny it"},
	{idle, Asked, always, Observing, (*Machine).askNow, "keep it; observe"},
	{busy, Asked, always, same, (*Machine).keep, "keep it"},

	{acquiring, Acquired, always, Idle, (*Machine).nothing, "—"},

	{observing, Viewed, other, same, nil, "ignore"},
	{observing, Viewed, fenced, Idle, (*Machine).abandon, "forget all plans; deny questions"},
	{observing, Viewed, failed, Idle, (*Machine).giveUp, "end the round"},
	{observing, Viewed, behind, Idle, (*Machine).giveUp, "end the round"},
	{observing, Viewed, deposed, Idle, (*Machine).giveUp, "end the round"},
	{observing, Viewed, rests, Idle, (*Machine).giveUp, "end the round"},
	{observing, Viewed, always, Surveying, (*Machine).survey, "survey"},

	{surveying, Surveyed, other, same, nil, "ignore"},
	{surveying, Surveyed, fenced, Idle, (*Machine).abandon, "forget all plans; deny questions"},
	{surveying, Surveyed, always, Planning, (*Machine).plan, "make a plan"},

	{planning, Planned, other, same, nil, "ignore"},
	{planning, Planned, fenced, Idle, (*Machine).abandon, "forget all plans; deny questions"},
	{planning, Planned, failed, Idle, (*Machine).giveUp, "end the round"},
	{planning, Planned, settled, Idle, (*Machine).finish, "refuse; answer"},
	{planning, Planned, always, Storing, (*Machine).store, "store"},

	{storing, Stored, other, same, nil, "ignore"},
	{storing, Stored, fenced, Idle, (*Machine).abandon, "forget all plans; deny questions"},
	{storing, Stored, refused, Idle, (*Machine).stop, "refuse; answer; plan again"},
	{storing, Stored, ends, Idle, (*Machine).conclude, "refuse; answer"},
	{storing, Stored, always, same, (*Machine).storeNext, "store"},
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
