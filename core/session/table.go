package session

import "troupe/core/table"

type (
	condition = func(*Machine, event) bool
	action    = func(*Machine, event)

	row   = table.Row[State, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	unassigned = []State{Routing, Delayed, Waiting}
	assigned   = []State{Submitted, Serving}
	live       = []State{Routing, Delayed, Waiting, Submitted, Serving}
	begun      = []State{Created, Routing, Delayed, Waiting, Submitted, Serving}
	all        = []State{Created, Routing, Delayed, Waiting, Submitted, Serving, Ended}
)

var (
	always      = guard{}
	finalRoute  = guard{"final", routeFinal}
	finalSubmit = guard{"final", submitFinal}
	finalBreak  = guard{"final", interruptFinal}
	preempted   = guard{"preempted", interruptPreempted}
	expired     = guard{"deadline passed", (*Machine).expired}
	gap         = guard{"after a gap", (*Machine).gap}
	unknown     = guard{"first, of unknown files", (*Machine).unknownFiles}
	ownOther    = guard{"of other files, from the replica", both((*Machine).otherFiles, (*Machine).own)}
	otherFiles  = guard{"of other files", (*Machine).otherFiles}
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
	again       = guard{"again", func(*Machine, event) bool { return true }}
	isFaulty    = guard{"faulty", func(_ *Machine, e event) bool { return e.refusal.Reason == Faulty }}
	unanswered  = guard{"unanswered for 10 s", (*Machine).unanswered}
	silent      = guard{"silent for 1.2 s", (*Machine).silent}
	quiet       = guard{"silent for 0.4 s", (*Machine).quiet}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("session", []row{
	{[]State{Created}, Start, always, Routing, (*Machine).start, "ask the router"},

	{unassigned, Routed, always, Submitted, (*Machine).submitTo, "abandon silent; watch, submit"},
	{unassigned, RouteRefused, finalRoute, Ended, (*Machine).relay, "relay the refusal"},
	{unassigned, RouteRefused, expired, Ended, (*Machine).expire, "fail: deadline"},
	{unassigned, RouteRefused, always, Delayed, (*Machine).delayRoute, "set the timer"},
	{unassigned, Queued, expired, Ended, (*Machine).expire, "fail: deadline"},
	{unassigned, Queued, always, Waiting, (*Machine).keepPlace, "set the timer"},

	{assigned, Accepted, fromOther, same, nil, "ignore"},
	{assigned, Accepted, always, Serving, (*Machine).accepted, "keep the revision"},
	{assigned, SubmitRefused, fromOther, same, nil, "ignore"},
	{assigned, SubmitRefused, finalSubmit, Ended, (*Machine).relay, "relay the refusal"},
	{assigned, SubmitRefused, expired, Ended, (*Machine).expire, "fail: deadline; cancel"},
	{assigned, SubmitRefused, isFaulty, Delayed, (*Machine).faultyRefused, "avoid it; unwatch; set the timer"},
	{assigned, SubmitRefused, always, Delayed, (*Machine).submitRefused, "unwatch; set the timer"},

	{live, Emitted, unknown, same, nil, "ignore"},
	{live, Emitted, ownOther, Routing, (*Machine).leaveFiles, "unwatch; ask the router"},
	{live, Emitted, otherFiles, same, (*Machine).cancelSender, "cancel there"},
	{live, Emitted, ownGap, Routing, (*Machine).tokensMissing, "unwatch; ask the router"},
	{live, Emitted, gap, same, (*Machine).track, "note the other replica"},
	{live, Emitted, ownFinish, Ended, (*Machine).finishOwn, "deliver"},
	{live, Emitted, finish, Ended, (*Machine).finishOther, "deliver; cancel"},
	{[]State{Submitted}, Emitted, fromReplica, Serving, (*Machine).deliver, "deliver"},
	{live, Emitted, always, same, (*Machine).deliver, "deliver; note the other replica"},

	{assigned, Interrupted, fromOther, same, nil, "ignore"},
	{assigned, Interrupted, older, same, nil, "ignore"},
	{assigned, Interrupted, finalBreak, Ended, (*Machine).relay, "relay the refusal"},
	{assigned, Interrupted, preempted, Delayed, (*Machine).requeue, "unwatch; set the timer"},
	{assigned, Interrupted, tooMany, Ended, (*Machine).failRepeated, "fail: engine failed"},
	{assigned, Interrupted, expired, Ended, (*Machine).expire, "fail: deadline; cancel"},
	{assigned, Interrupted, isFaulty, Delayed, (*Machine).faultyInterrupted, "avoid it; unwatch; set the timer"},
	{assigned, Interrupted, always, Delayed, (*Machine).interrupted, "unwatch; set the timer"},

	{assigned, Status, fromOther, same, nil, "ignore"},
	{assigned, Status, tokensLost, Submitted, (*Machine).submitAgain, "submit again"},
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
	{assigned, Timer, unanswered, Routing, (*Machine).giveUp, "avoid it; unwatch; ask the router"},
	{assigned, Timer, silent, Routing, (*Machine).abandon, "unwatch; ask the router"},
	{assigned, Timer, quiet, same, (*Machine).query, "query; set the timer"},
	{assigned, Timer, always, same, (*Machine).wait, "set the timer"},

	{begun, Close, always, Ended, (*Machine).closed, "cancel"},
	{[]State{Ended}, Close, again, same, nil, "ignore"},

	{all, Stop, always, Ended, (*Machine).release, "unwatch; stop the timer"},
})

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	r := rows.Find(m.state, e.kind, func(holds condition) bool { return holds(m, e) })
	switch {
	case r == nil:
		return []Effect{Ignored{m.state, e.kind, "unexpected"}}
	case r.Do == nil:
		return []Effect{Ignored{m.state, e.kind, r.When.Name}}
	}
	r.Do(m, e)
	if r.To != same {
		m.state = r.To
	}
	effects := m.effects
	m.effects = nil
	return effects
}

func both(a, b condition) condition {
	return func(m *Machine, e event) bool { return a(m, e) && b(m, e) }
}
