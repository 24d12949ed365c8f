package router

import "troupe/core/table"

type (
	condition = func(*Machine, event) bool
	action    = func(*Machine, event)

	row[S table.Enum] = table.Row[S, Event, condition, action]
	guard             = table.Guard[condition]
)

const same = table.Same

var (
	notMembers = []Sync{Absent}
	members    = []Sync{Syncing, Synced, Lagging}
	following  = []Sync{Synced, Lagging}
	contacts   = []Contact{Unheard, Heard, Silent}
	phases     = []Phase{Starting, CatchingUp, Ready}
)

var (
	always         = guard{}
	stranger       = guard{"not a member", func(*Machine, event) bool { return true }}
	anotherProcess = guard{"another process", (*Machine).anotherProcess}
	earlierLife    = guard{"of an earlier incarnation", (*Machine).earlierLife}
	newSnapshot    = guard{"a newer snapshot", (*Machine).newSnapshot}
	laterLife      = guard{"of a later incarnation", (*Machine).laterLife}
	applied        = guard{"applied before", (*Machine).applied}
	nextDelta      = guard{"the next one", (*Machine).nextDelta}
	longSilent     = guard{"silent for 1 s", (*Machine).longSilent}
	lateOnly       = guard{"silent for less than 1 s", (*Machine).lateOnly}
	everySynced    = guard{"no peer is syncing", (*Machine).everySynced}
)

// syncTable is the table of doc.go for the view of a peer's node. The first row that fits applies.
var syncTable = table.New("router peer", []row[Sync]{
	{notMembers, Joined, always, Syncing, (*Machine).greet, "send and request a snapshot"},
	{members, Joined, anotherProcess, Syncing, (*Machine).replace, "forget its node; send and request a snapshot"},
	{members, Joined, always, same, (*Machine).nothing, "—"},
	{members, Left, always, Absent, (*Machine).forgetPeer, "forget its node"},

	{notMembers, Announced, stranger, same, nil, "ignore"},
	{members, Announced, earlierLife, same, nil, "ignore"},
	{members, Announced, newSnapshot, Synced, (*Machine).adopt, "forget its node; apply"},
	{members, Announced, laterLife, Syncing, (*Machine).restart, "request a snapshot"},
	{following, Announced, applied, same, nil, "ignore"},
	{following, Announced, nextDelta, Synced, (*Machine).follow, "apply"},
	{following, Announced, always, Lagging, (*Machine).requestSnapshot, "request a snapshot"},
	{[]Sync{Syncing}, Announced, always, same, (*Machine).requestSnapshot, "request a snapshot"},
})

// contactTable is the table of doc.go for the contact with a peer.
var contactTable = table.New("router contact", []row[Contact]{
	{contacts, Joined, anotherProcess, Unheard, (*Machine).nothing, "—"},
	{contacts, Joined, always, same, (*Machine).nothing, "—"},
	{[]Contact{Unheard}, Announced, always, Heard, (*Machine).meet, "watch its router"},
	{[]Contact{Heard, Silent}, Announced, always, Heard, (*Machine).hear, "—"},
	{[]Contact{Heard}, Aged, longSilent, Silent, (*Machine).nothing, "—"},
	{contacts, Aged, always, same, (*Machine).nothing, "—"},
	{[]Contact{Silent}, Credited, lateOnly, Heard, (*Machine).nothing, "—"},
	{contacts, Credited, always, same, (*Machine).nothing, "—"},
	{contacts, Lost, always, Unheard, (*Machine).nothing, "—"},
})

// phaseTable is the table of doc.go for the router itself.
var phaseTable = table.New("router", []row[Phase]{
	{[]Phase{Starting}, StoreRead, everySynced, Ready, (*Machine).reportReady, "report that it is synced"},
	{[]Phase{Starting}, StoreRead, always, CatchingUp, (*Machine).nothing, "—"},
	{[]Phase{CatchingUp, Ready}, StoreRead, always, same, (*Machine).nothing, "—"},
	{[]Phase{CatchingUp}, Changed, everySynced, Ready, (*Machine).reportReady, "report that it is synced"},
	{phases, Changed, always, same, (*Machine).nothing, "—"},
})

// fire applies the first row of a table that fits an event to a state. It returns false if the
// event was ignored.
func fire[S table.Enum](m *Machine, of *table.Table[S, Event, condition, action], state *S, e event) bool {
	r := of.Find(*state, e.kind, func(holds condition) bool { return holds(m, e) })
	switch {
	case r == nil:
		m.emit(Ignored{e.kind, e.node(), "unexpected"})
		return false
	case r.Do == nil:
		m.emit(Ignored{e.kind, e.node(), r.When.Name})
		return false
	}
	r.Do(m, e)
	if r.To != same {
		*state = r.To
	}
	return true
}

// nothing is the action of a row that only changes the state.
func (m *Machine) nothing(event) {}
