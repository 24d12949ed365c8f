package session

import "slices"

// row is one transition. In any state of from, if event on arrives and guard when holds, the
// machine runs do and enters state to.
type row struct {
	from []State
	on   Event
	when guard
	to   State
	do   func(*Machine, event) // nil: ignore the event, with the guard as the reason
	does string                // do, in the table of doc.go
}

// guard is a condition of a transition. The zero value always holds.
type guard struct {
	name  string
	holds func(*Machine, event) bool
}

// same, as the next state of a row, leaves the state unchanged.
const same State = 255

var (
	unassigned = []State{Routing, Delayed}
	assigned   = []State{Submitted, Serving}
	live       = []State{Routing, Delayed, Submitted, Serving}
	all        = []State{Created, Routing, Delayed, Submitted, Serving, Ended}
)

var (
	always      = guard{}
	finalRoute  = guard{"final", routeFinal}
	finalSubmit = guard{"final", submitFinal}
	finalBreak  = guard{"final", interruptFinal}
	expired     = guard{"deadline passed", (*Machine).expired}
	gap         = guard{"after a gap", (*Machine).gap}
	ownGap      = guard{"after a gap, from the replica", both((*Machine).gap, (*Machine).own)}
	ownFinish   = guard{"last, from the replica", both((*Machine).finished, (*Machine).own)}
	finish      = guard{"last", (*Machine).finished}
	fromReplica = guard{"from the replica", (*Machine).own}
	fromOther   = guard{"not from the replica", (*Machine).notOwn}
	older       = guard{"of an earlier incarnation", (*Machine).older}
	tooMany     = guard{"too many without a token", (*Machine).tooMany}
	tokensLost  = guard{"sequence or tokens lost", (*Machine).tokensLost}
	toReplica   = guard{"to the replica", (*Machine).toReplica}
	staleTimer  = guard{"of an earlier attempt", (*Machine).staleTimer}
	silent      = guard{"silent for 1.2 s", (*Machine).silent}
	quiet       = guard{"silent for 0.4 s", (*Machine).quiet}
)

// table is the transition table of doc.go. The first row that fits applies.
var table = []row{
	{[]State{Created}, Start, always, Routing, (*Machine).start, "ask the router"},

	{unassigned, Routed, always, Submitted, (*Machine).submitTo, "abandon a silent one; watch, submit"},
	{unassigned, RouteRefused, finalRoute, Ended, (*Machine).relay, "relay the refusal"},
	{unassigned, RouteRefused, expired, Ended, (*Machine).expire, "fail: deadline"},
	{unassigned, RouteRefused, always, Delayed, (*Machine).delayRoute, "set the timer"},

	{assigned, Accepted, always, Serving, (*Machine).accepted, "keep the revision"},
	{assigned, SubmitRefused, finalSubmit, Ended, (*Machine).relay, "relay the refusal"},
	{assigned, SubmitRefused, expired, Ended, (*Machine).expire, "fail: deadline; cancel"},
	{assigned, SubmitRefused, always, Delayed, (*Machine).submitRefused, "unwatch; set the timer"},

	{live, Emitted, ownGap, Routing, (*Machine).tokensMissing, "unwatch; ask the router"},
	{live, Emitted, gap, same, (*Machine).track, "note the other replica"},
	{live, Emitted, ownFinish, Ended, (*Machine).finishOwn, "deliver"},
	{live, Emitted, finish, Ended, (*Machine).finishOther, "deliver; cancel"},
	{[]State{Submitted}, Emitted, fromReplica, Serving, (*Machine).deliver, "deliver"},
	{live, Emitted, always, same, (*Machine).deliver, "deliver; note the other replica"},

	{assigned, Interrupted, fromOther, same, nil, "ignore"},
	{assigned, Interrupted, older, same, nil, "ignore"},
	{assigned, Interrupted, finalBreak, Ended, (*Machine).relay, "relay the refusal"},
	{assigned, Interrupted, tooMany, Ended, (*Machine).failRepeated, "fail: engine failed"},
	{assigned, Interrupted, expired, Ended, (*Machine).expire, "fail: deadline; cancel"},
	{assigned, Interrupted, always, Delayed, (*Machine).interrupted, "unwatch; set the timer"},

	{assigned, Status, tokensLost, Submitted, (*Machine).resubmit, "submit again"},
	{assigned, Status, always, Serving, (*Machine).hear, "—"},

	{assigned, Moved, toReplica, same, nil, "ignore"},
	{assigned, Moved, fromOther, same, (*Machine).cancelStray, "cancel there"},
	{live, Moved, always, Submitted, (*Machine).follow, "tell the router; watch, query"},

	{assigned, Lost, fromOther, same, nil, "ignore"},
	{assigned, Lost, expired, Ended, (*Machine).expire, "fail: deadline; cancel"},
	{assigned, Lost, always, Delayed, (*Machine).lost, "avoid it; unwatch; set the timer"},

	{live, Timer, staleTimer, same, nil, "ignore"},
	{live, Timer, expired, Ended, (*Machine).expire, "fail: deadline; cancel"},
	{unassigned, Timer, always, Routing, (*Machine).route, "ask the router"},
	{assigned, Timer, silent, Routing, (*Machine).abandon, "unwatch; ask the router"},
	{assigned, Timer, quiet, same, (*Machine).query, "query; set the timer"},
	{assigned, Timer, always, same, (*Machine).wait, "set the timer"},

	{live, Close, always, Ended, (*Machine).closed, "cancel"},

	{all, Stop, always, Ended, (*Machine).release, "unwatch; stop the timer"},
}

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	r := m.find(e)
	if r == nil {
		return []Effect{Ignored{m.state, e.kind, "unexpected"}}
	}
	if r.do == nil {
		return []Effect{Ignored{m.state, e.kind, r.when.name}}
	}
	r.do(m, e)
	if r.to != same {
		m.state = r.to
	}
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *Machine) find(e event) *row {
	for i := range table {
		r := &table[i]
		if r.on == e.kind && slices.Contains(r.from, m.state) && (r.when.holds == nil || r.when.holds(m, e)) {
			return r
		}
	}
	return nil
}

func both(a, b func(*Machine, event) bool) func(*Machine, event) bool {
	return func(m *Machine, e event) bool { return a(m, e) && b(m, e) }
}
