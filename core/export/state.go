package export

// State is the state of an export.
type State uint8

// States.
const (
	None    State = iota // no such export
	Locking              // the holder locks the blocks that it has
	Sending              // the blocks are being sent
	Ending               // the blocks are being sent, but the requester has stopped waiting
)

// String returns the name of the state.
func (s State) String() string { return [...]string{"none", "locking", "sending", "ending"}[s] }

// Event is a kind of event. Each is a method of Machine.
type Event uint8

// Events.
const (
	Lease   Event = iota // a replica requests blocks
	Locked               // the holder has locked the requested blocks that it has
	Release              // the requester has stopped waiting
	Ended                // the transfer ended, successfully or not
)

// String returns the name of the event.
func (e Event) String() string { return [...]string{"lease", "locked", "release", "ended"}[e] }

// Reason is why a lease is refused.
type Reason uint8

// Reasons.
const (
	NotReady Reason = iota
	Unsupported
	Conflict
	Invalid
	QueueFull
	Internal
)

// String returns the name of the reason.
func (r Reason) String() string {
	return [...]string{"not ready", "unsupported", "conflict", "invalid", "queue full", "internal"}[r]
}
