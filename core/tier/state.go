package tier

import "troupe/core/table"

// Object is a kind of object that has a state.
type Object uint8

// Objects.
const (
	Reservation Object = iota // a ReserveSlots request
	Lock                      // a LockBlocks request
	Flush                     // a FlushBlocks request
	Pins                      // the pins of one replica
	Demotion                  // the copies to the tier below
)

// String returns the name of the object.
func (o Object) String() string {
	return [...]string{"reservation", "lock", "flush", "pins", "demotion"}[o]
}

// State is the state of an object.
type State uint8

// States. None is the state of unknown requests and replicas.
const (
	None    State = iota
	Waiting       // a reservation waits for a slab
	Granted       // the slots of a reservation are being written
	Locked        // the slots of a lock are being read
	Erasing       // the slots of a flush are being erased
	Pinned        // pins are in effect

	Idle    // demotion: nothing is being copied
	Copying // demotion: blocks are being copied to the tier below
	Stalled // demotion: the copy in flight is too slow for a reservation
	Paused  // demotion: waiting for the retry after a failed copy
	Off     // demotion: there is no tier below
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{
		"none", "waiting", "granted", "locked", "erasing", "pinned", "idle", "copying", "stalled", "paused", "off",
	}[s]
}

// Trigger is an event of one object.
type Trigger uint8

const (
	refused   Trigger = iota // its blocks are too large
	granted                  // the reservation got slots
	answered                 // the reservation gets no slots
	queued                   // it has to wait for a slab
	repeated                 // the request was sent again
	timedOut                 // a reservation has waited too long
	committed                // the requester has written the slots, or stopped waiting
	locked                   // the tier has some of the blocks
	missed                   // the tier has none of the blocks
	unlocked                 // the requester has read the slots
	flushed                  // blocks were dropped; their slots are to be erased
	erased                   // the slots are erased
	pinned                   // the replica sent its pins
	expired                  // the replica has not repeated its pins
	stale                    // the timer was set for earlier pins
	selected                 // blocks are due
	copied                   // the blocks were copied
	failed                   // some blocks could not be copied
	retried                  // the pause is over
)

// String returns the name of the trigger.
func (t Trigger) String() string {
	return [...]string{
		"refused", "granted", "answered", "queued", "repeated", "timedOut", "committed", "locked", "missed",
		"unlocked", "flushed", "erased", "pinned", "expired", "stale", "selected", "copied", "failed", "retried",
	}[t]
}

// row is one transition. It has no condition and no action.
type row = table.Row[State, Trigger, struct{}, struct{}]

func on(t Trigger, to State, does string, from ...State) row {
	return row{On: t, From: from, To: to, Does: does}
}

const same = table.Same

// rows are the transition tables of doc.go, by object.
var rows = [...]*table.Table[State, Trigger, struct{}, struct{}]{
	Reservation: table.New("tier reservation", []row{
		on(refused, same, "refuse: the blocks are too large", None),
		on(granted, Granted, "answer with slots", None, Waiting),
		on(answered, None, "answer without slots", None, Waiting),
		on(queued, Waiting, "set the timer", None),
		on(repeated, same, "replace the requester", Waiting),
		on(repeated, same, "answer again", Granted),
		on(timedOut, same, "drop blocks of other sizes", Waiting),
		on(committed, None, "—", Waiting, Granted),
	}),
	Lock: table.New("tier lock", []row{
		on(locked, Locked, "answer with slots", None),
		on(missed, same, "answer without slots", None),
		on(repeated, same, "answer again", Locked),
		on(unlocked, None, "—", Locked),
	}),
	Flush: table.New("tier flush", []row{
		on(flushed, Erasing, "erase", None),
		on(repeated, same, "replace the requester", Erasing),
		on(erased, None, "answer", Erasing),
	}),
	Pins: table.New("tier pins", []row{
		on(pinned, Pinned, "set the timer", None, Pinned),
		on(expired, None, "—", Pinned),
	}),
	Demotion: table.New("tier demotion", []row{
		on(selected, Copying, "copy", Idle),
		on(timedOut, Stalled, "—", Copying),
		on(copied, Idle, "—", Copying, Stalled),
		on(failed, Paused, "set the timer", Copying, Stalled),
		on(retried, Idle, "—", Paused),
	}),
}

// move applies a trigger to the state of an object. If the table has no transition for it, move
// emits Ignored and returns false.
func (m *Machine) move(of Object, id string, state *State, on Trigger) bool {
	r := rows[of].Find(*state, on, nil)
	if r == nil {
		m.emit(Ignored{of, id, *state, on})
		return false
	}
	if r.To != same {
		*state = r.To
	}
	return true
}
