package switching

import (
	"slices"

	"troupe/core/table"
)

type (
	condition = func(*Machine, event) bool
	action    = func(*Machine, event)

	row   = table.Row[Phase, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	idle       = []Phase{Serving}
	inProgress = []Phase{Draining, Freeing, Loading, Capturing}
)

var (
	always   = guard{}
	repeated = guard{"of the same request", func(m *Machine, e event) bool { return e.request.ID == m.current.ID }}
	stays    = guard{"does not leave", func(m *Machine, e event) bool { return !m.current.leaves(e.lease) }}
	noPart   = guard{"takes no part", func(m *Machine, e event) bool {
		return !m.current.leaves(e.lease) && e.lease != m.current.To
	}}
	notTold    = guard{"not suspended", func(m *Machine, e event) bool { return !m.current.told(e.lease) }}
	otherID    = guard{"of another switch", func(m *Machine, e event) bool { return e.id != m.current.ID }}
	notComing  = guard{"does not come", func(m *Machine, e event) bool { return e.lease != m.current.To }}
	someServe  = guard{"some still serve", func(m *Machine, _ event) bool { return len(m.current.serving) > 0 }}
	someHold   = guard{"some hold memory", func(m *Machine, _ event) bool { return len(m.current.holding) > 0 }}
	notLoaded  = guard{"not loaded", func(m *Machine, _ event) bool { return !m.current.loaded }}
	notServing = guard{"does not serve", func(m *Machine, _ event) bool { return !m.current.serves }}
	another    = guard{"of another switch", func(m *Machine, e event) bool { return e.number != m.number }}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("switching", []row{
	{idle, evBegin, always, Draining, (*Machine).begin, "note who leaves; progress"},
	{inProgress, evBegin, repeated, same, nothing, "—"},
	{inProgress, evBegin, always, same, (*Machine).refuse, "refuse"},

	{inProgress, evDrained, stays, same, nil, "ignore"},
	{inProgress, evDrained, always, same, (*Machine).drained, "progress"},
	{inProgress, evFreed, stays, same, nil, "ignore"},
	{inProgress, evFreed, always, same, (*Machine).freed, "progress"},
	{inProgress, evSuspended, stays, same, nil, "ignore"},
	{inProgress, evSuspended, always, same, (*Machine).suspended, "note it"},
	{inProgress, evActivated, stays, same, nil, "ignore"},
	{inProgress, evActivated, notTold, same, nil, "ignore"},
	{inProgress, evActivated, always, Serving, (*Machine).fail, "bring back; ended"},
	{inProgress, evOverruled, otherID, same, nil, "ignore"},
	{inProgress, evOverruled, noPart, same, nil, "ignore"},
	{inProgress, evOverruled, always, Serving, (*Machine).fail, "bring back; ended"},
	{inProgress, evLoaded, notComing, same, nil, "ignore"},
	{inProgress, evLoaded, always, same, (*Machine).loaded, "keep the load; progress"},
	{inProgress, evServes, notComing, same, nil, "ignore"},
	{inProgress, evServes, notLoaded, same, nil, "ignore"},
	{inProgress, evServes, always, same, (*Machine).serves, "keep the start; progress"},

	{[]Phase{Draining}, evProgress, someServe, same, nothing, "—"},
	{[]Phase{Draining, Freeing}, evProgress, someHold, Freeing, nothing, "—"},
	{[]Phase{Draining, Freeing, Loading}, evProgress, notLoaded, Loading, nothing, "—"},
	{inProgress, evProgress, notServing, Capturing, nothing, "—"},
	{inProgress, evProgress, always, Serving, (*Machine).succeed, "ended"},

	{inProgress, evFailed, notComing, same, nil, "ignore"},
	{inProgress, evFailed, always, Serving, (*Machine).fail, "bring back; ended"},
	{inProgress, evDeadline, another, same, nil, "ignore"},
	{inProgress, evDeadline, always, Serving, (*Machine).fail, "bring back; ended"},
})

func (c *current) leaves(lease string) bool { return slices.Contains(c.Leave, lease) }

func (c *current) told(lease string) bool { return slices.Contains(c.suspended, lease) }
