package remote

import "troupe/core/table"

// Object is a kind of object that has a state.
type Object uint8

// Objects.
const (
	Lookup Object = iota // a FindBlocks request
	Fetch                // a FetchBlocks request
)

// String returns the name of the object.
func (o Object) String() string { return [...]string{"lookup", "fetch"}[o] }

// State is the state of a lookup or a fetch.
type State uint8

// States.
const (
	None      State = iota // unknown
	Asked                  // a lookup: the router was asked
	Waiting                // a fetch waits for capacity
	Leased                 // a fetch: the holder was asked to send the blocks
	Abandoned              // the holder was asked, but the requester no longer waits
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{"none", "asked", "waiting", "leased", "abandoned"}[s]
}

// Trigger is an event of one lookup or fetch.
type Trigger uint8

const (
	asked     Trigger = iota // a replica looks blocks up
	tooMany                  // too many lookups are open
	found                    // the router answered
	expired                  // the router has not answered for a while
	malformed                // the command is invalid
	full                     // too many fetches wait
	queued                   // the fetch is accepted
	repeated                 // the command was sent again
	started                  // the capacity allows the fetch
	late                     // the deadline passed before the capacity allowed the fetch
	released                 // the requester no longer waits
	sent                     // the holder has sent its blocks
	refused                  // the holder refused, or did not answer
	failed                   // the holder could not be reached
	stopped                  // the actor stops or restarts
)

// String returns the name of the trigger.
func (t Trigger) String() string {
	return [...]string{
		"asked", "tooMany", "found", "expired", "malformed", "full", "queued", "repeated", "started", "late",
		"released", "sent", "refused", "failed", "stopped",
	}[t]
}

type (
	row   = table.Row[State, Trigger, struct{}, func(*Machine, event)]
	guard = table.Guard[struct{}]
)

const same = table.Same

var always = guard{}

// lookupRows and fetchRows are the transition tables of doc.go.
var lookupRows = table.New("remote lookup", []row{
	{[]State{None, Asked}, asked, always, Asked, (*Machine).ask, "ask the router"},
	{[]State{None}, tooMany, always, same, (*Machine).answerEmpty, "answer without holders"},
	{[]State{Asked}, found, always, None, (*Machine).answerFind, "answer"},
	{[]State{Asked}, expired, always, None, (*Machine).nothing, "—"},
})

var fetchRows = table.New("remote fetch", []row{
	{[]State{None}, malformed, always, same, (*Machine).refuseMalformed, "refuse: invalid"},
	{[]State{None}, full, always, same, (*Machine).refuseFull, "refuse: queue full"},
	{[]State{None}, queued, always, Waiting, (*Machine).keep, "keep"},
	{[]State{Waiting}, started, always, Leased, (*Machine).lease, "lease"},
	{[]State{Waiting}, late, always, None, (*Machine).refuseLate, "refuse: deadline; forget"},
	{[]State{Waiting, Leased}, repeated, always, same, (*Machine).replaceRequester, "replace the requester"},
	{[]State{Abandoned}, repeated, always, Leased, (*Machine).replaceRequester, "replace the requester"},
	{[]State{Waiting}, released, always, None, (*Machine).forget, "forget"},
	{[]State{Leased}, released, always, Abandoned, (*Machine).release, "release"},
	{[]State{Abandoned}, released, always, same, (*Machine).release, "release"},
	{[]State{Waiting}, stopped, always, None, (*Machine).refuseStopped, "refuse: not ready; forget"},
	{[]State{Leased}, stopped, always, None, (*Machine).releaseStopped, "release; refuse: not ready; forget"},
	{[]State{Abandoned}, stopped, always, None, (*Machine).releaseAbandoned, "release; forget"},
	{[]State{Leased}, sent, always, None, (*Machine).answerSent, "answer; forget"},
	{[]State{Abandoned}, sent, always, None, (*Machine).forget, "forget"},
	{[]State{Leased}, refused, always, None, (*Machine).relay, "relay the refusal; forget"},
	{[]State{Abandoned}, refused, always, None, (*Machine).forget, "forget"},
	{[]State{Leased}, failed, always, None, (*Machine).refuseFailed, "refuse: internal; forget"},
	{[]State{Abandoned}, failed, always, None, (*Machine).forget, "forget"},
})

// on applies the transition of an object for a trigger. If the table has none, it emits Ignored and
// returns false.
func (m *Machine) on(of Object, trigger Trigger, e event) bool {
	state := m.State(of, e.id)
	rows := lookupRows
	if of == Fetch {
		rows = fetchRows
	}
	if r := rows.Find(state, trigger, nil); r != nil {
		r.Do(m, e)
		if r.To != same {
			state = r.To
		}
		m.enter(of, e.id, state)
		return true
	}
	m.emit(Ignored{of, e.id, state, trigger})
	return false
}

// State returns the state of a lookup or a fetch.
func (m *Machine) State(of Object, id string) State {
	if _, ok := m.lookups[id]; ok && of == Lookup {
		return Asked
	}
	if f := m.fetches[id]; f != nil && of == Fetch {
		return f.state
	}
	return None
}

func (m *Machine) enter(of Object, id string, to State) {
	switch {
	case of == Lookup && to == None:
		delete(m.lookups, id)
	case of == Fetch && to == None:
		delete(m.fetches, id)
	case of == Fetch:
		m.fetches[id].state = to
	}
}
