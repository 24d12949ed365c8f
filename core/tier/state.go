package tier

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

// transition is a row of the table.
type transition struct {
	of   Object
	from []State
	on   Trigger
	to   State
	does string // describes its effects in the table of doc.go
}

// table lists all transitions; see doc.go.
var table = []transition{
	{Reservation, []State{None}, refused, None, "refuse: the blocks are too large"},
	{Reservation, []State{None}, granted, Granted, "answer with slots"},
	{Reservation, []State{None}, answered, None, "answer without slots"},
	{Reservation, []State{None}, queued, Waiting, "set the timer"},
	{Reservation, []State{Waiting}, repeated, Waiting, "replace the requester"},
	{Reservation, []State{Waiting}, granted, Granted, "answer with slots"},
	{Reservation, []State{Waiting}, answered, None, "answer without slots"},
	{Reservation, []State{Waiting}, timedOut, Waiting, "drop blocks of other sizes"},
	{Reservation, []State{Waiting}, committed, None, "-"},
	{Reservation, []State{Granted}, repeated, Granted, "answer again"},
	{Reservation, []State{Granted}, committed, None, "-"},
	{Lock, []State{None}, locked, Locked, "answer with slots"},
	{Lock, []State{None}, missed, None, "answer without slots"},
	{Lock, []State{Locked}, repeated, Locked, "answer again"},
	{Lock, []State{Locked}, unlocked, None, "-"},
	{Flush, []State{None}, flushed, Erasing, "erase"},
	{Flush, []State{Erasing}, repeated, Erasing, "replace the requester"},
	{Flush, []State{Erasing}, erased, None, "answer"},
	{Pins, []State{None, Pinned}, pinned, Pinned, "set the timer"},
	{Pins, []State{Pinned}, expired, None, "-"},
	{Demotion, []State{Idle}, selected, Copying, "copy"},
	{Demotion, []State{Copying}, timedOut, Stalled, "-"},
	{Demotion, []State{Copying, Stalled}, copied, Idle, "-"},
	{Demotion, []State{Copying, Stalled}, failed, Paused, "set the timer"},
	{Demotion, []State{Paused}, retried, Idle, "-"},
}

// next returns the next state, or false if the table has no transition.
func next(of Object, from State, on Trigger) (State, bool) {
	for _, t := range table {
		for _, s := range t.from {
			if t.of == of && s == from && t.on == on {
				return t.to, true
			}
		}
	}
	return from, false
}

// move applies a trigger to the state of an object. If the table has no transition for it, move
// emits Ignored and returns false.
func (m *Machine) move(of Object, id string, state *State, on Trigger) bool {
	to, ok := next(of, *state, on)
	if !ok {
		m.emit(Ignored{of, id, *state, on})
		return false
	}
	*state = to
	return true
}
