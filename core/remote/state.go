package remote

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

// transition is a row of the table. It runs do and then enters state to.
type transition struct {
	of   Object
	from State
	on   Trigger
	to   State
	do   func(*Machine, event)
	does string // describes do in the table of doc.go
}

// table lists all transitions; see doc.go.
var table = []transition{
	{Lookup, None, asked, Asked, (*Machine).ask, "ask the router"},
	{Lookup, None, tooMany, None, (*Machine).answerEmpty, "answer without holders"},
	{Lookup, Asked, asked, Asked, (*Machine).ask, "ask the router"},
	{Lookup, Asked, found, None, (*Machine).answerFind, "answer"},
	{Lookup, Asked, expired, None, (*Machine).nothing, "-"},
	{Fetch, None, malformed, None, (*Machine).refuseMalformed, "refuse: invalid"},
	{Fetch, None, full, None, (*Machine).refuseFull, "refuse: queue full"},
	{Fetch, None, queued, Waiting, (*Machine).keep, "keep"},
	{Fetch, Waiting, started, Leased, (*Machine).lease, "lease"},
	{Fetch, Waiting, late, None, (*Machine).refuseLate, "refuse: deadline; forget"},
	{Fetch, Waiting, repeated, Waiting, (*Machine).replaceRequester, "replace the requester"},
	{Fetch, Waiting, released, None, (*Machine).forget, "forget"},
	{Fetch, Waiting, stopped, None, (*Machine).refuseStopped, "refuse: not ready; forget"},
	{Fetch, Leased, repeated, Leased, (*Machine).replaceRequester, "replace the requester"},
	{Fetch, Leased, released, Abandoned, (*Machine).release, "release"},
	{Fetch, Leased, sent, None, (*Machine).answerSent, "answer; forget"},
	{Fetch, Leased, refused, None, (*Machine).relay, "relay the refusal; forget"},
	{Fetch, Leased, failed, None, (*Machine).refuseFailed, "refuse: internal; forget"},
	{Fetch, Leased, stopped, None, (*Machine).releaseStopped, "release; refuse: not ready; forget"},
	{Fetch, Abandoned, repeated, Leased, (*Machine).replaceRequester, "replace the requester"},
	{Fetch, Abandoned, released, Abandoned, (*Machine).release, "release"},
	{Fetch, Abandoned, sent, None, (*Machine).forget, "forget"},
	{Fetch, Abandoned, refused, None, (*Machine).forget, "forget"},
	{Fetch, Abandoned, failed, None, (*Machine).forget, "forget"},
	{Fetch, Abandoned, stopped, None, (*Machine).releaseAbandoned, "release; forget"},
}

// on applies the transition of an object for a trigger. If the table has none, it emits Ignored and
// returns false.
func (m *Machine) on(of Object, trigger Trigger, e event) bool {
	state := m.State(of, e.id)
	for _, t := range table {
		if t.of != of || t.from != state || t.on != trigger {
			continue
		}
		t.do(m, e)
		m.enter(of, e.id, t.to)
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
