package residency

import (
	"slices"

	"troupe/core/table"
)

type (
	condition = func(*Machine, *copied, event) bool
	action    = func(*Machine, *copied, event)

	row   = table.Row[State, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	absent    = []State{Absent}
	loading   = []State{Loading}
	resident  = []State{Resident}
	leaving   = []State{Leaving}
	releasing = []State{Releasing}
	onDevice  = []State{Resident, Leaving}
	usable    = []State{Wanted, Loading, Resident}
)

var (
	always    = guard{}
	duplicate = guard{"already there", (*Machine).duplicate}
	unused    = guard{"unused", func(_ *Machine, c *copied, _ event) bool { return len(c.users) == 0 }}
	used      = guard{"in use", func(_ *Machine, c *copied, _ event) bool { return len(c.users) > 0 }}
	shared    = guard{"others use it", func(_ *Machine, c *copied, e event) bool {
		return slices.ContainsFunc(c.users, func(u User) bool { return u.Lease != e.lease })
	}}
	doomed = guard{"to be dropped", func(_ *Machine, c *copied, e event) bool {
		return e.fate >= ParkOrKeep || !c.served
	}}
	doomedRead = guard{"drop, being read", func(m *Machine, c *copied, e event) bool {
		return doomed.Holds(m, c, e) && len(c.readers) > 0
	}}
	read       = guard{"being read", func(_ *Machine, c *copied, _ event) bool { return len(c.readers) > 0 }}
	notOpen    = guard{"was not open", func(_ *Machine, c *copied, e event) bool { return !c.isRead(e.reader) }}
	othersRead = guard{"others read it", func(_ *Machine, c *copied, _ event) bool { return len(c.readers) > 1 }}
	spoiled    = guard{"to be dropped", func(_ *Machine, c *copied, _ event) bool { return c.spoiled }}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("residency", []row{
	{absent, evWant, always, Wanted, (*Machine).want, "count the user"},
	{usable, evWant, always, same, (*Machine).want, "count the user"},

	{[]State{Wanted}, evGrant, always, Loading, (*Machine).load, "lease pages; load"},
	{loading, evGrant, always, same, (*Machine).join, "wait for the load"},
	{resident, evGrant, always, same, (*Machine).ready, "ready"},

	{loading, evLoaded, duplicate, Releasing, (*Machine).merge, "give the users to the other copy; release"},
	{loading, evLoaded, unused, Releasing, (*Machine).release, "release"},
	{loading, evLoaded, always, Resident, (*Machine).loaded, "ready all"},
	{loading, evLoadFailed, always, Absent, (*Machine).loadFailed, "release the pages; fail all"},
	{absent, evRecovered, always, Resident, (*Machine).recovered, "lease pages"},

	{resident, evActivate, always, same, (*Machine).activate, "—"},
	{resident, evStandby, always, same, (*Machine).standby, "—"},

	{usable, evGone, shared, same, (*Machine).gone, "discount the user"},
	{[]State{Wanted}, evGone, always, Absent, (*Machine).gone, "discount the user"},
	{loading, evGone, always, same, (*Machine).gone, "discount the user"},
	{resident, evGone, doomedRead, Leaving, (*Machine).goneLeave, "discount the user; let the readers end"},
	{resident, evGone, doomed, Releasing, (*Machine).goneRelease, "discount the user; release"},
	{resident, evGone, always, same, (*Machine).gone, "discount the user; keep"},

	{resident, evRead, spoiled, same, nil, "ignore"},
	{resident, evRead, always, same, (*Machine).read, "count the reader"},
	{onDevice, evReadEnded, notOpen, same, nil, "ignore"},
	{resident, evReadEnded, always, same, (*Machine).readEnded, "discount the reader"},
	{leaving, evReadEnded, othersRead, same, (*Machine).readEnded, "discount the reader"},
	{leaving, evReadEnded, always, Releasing, (*Machine).lastReadEnded, "discount the reader; release"},
	{leaving, evOverdue, always, same, (*Machine).revoke, "revoke readers"},

	{resident, evEvict, used, same, nil, "ignore"},
	{resident, evEvict, read, Leaving, (*Machine).leave, "let the readers end"},
	{resident, evEvict, always, Releasing, (*Machine).release, "release"},
	{resident, evDrop, used, same, (*Machine).spoil, "revoke readers; drop it once unused"},
	{resident, evDrop, read, Leaving, (*Machine).leaveNow, "revoke readers"},
	{resident, evDrop, always, Releasing, (*Machine).release, "release"},
	{leaving, evDrop, always, same, (*Machine).dropLeaving, "revoke readers"},

	{releasing, evReleased, always, Absent, (*Machine).released, "release the pages"},
	{releasing, evReleaseFailed, always, Resident, (*Machine).releaseFailed, "—"},
})

// apply applies the first row that fits an event to a copy.
func (m *Machine) apply(c *copied, e event) {
	r := rows.Find(c.state, e.kind, func(holds condition) bool { return holds(m, c, e) })
	switch {
	case r == nil:
		m.emit(Ignored{c.number, e.kind, c.state, "unexpected"})
		return
	case r.Do == nil:
		m.emit(Ignored{c.number, e.kind, c.state, r.When.Name})
		return
	}
	r.Do(m, c, e)
	if r.To != same {
		c.state = r.To
	}
}
