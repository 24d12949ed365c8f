package offload

// State is the state of a replica's offload.
type State uint8

// States.
const (
	Off          State = iota // there is no tier below HBM, or no block may leave
	Idle                      // nothing is being copied
	SelectDue                 // the pool selects the blocks above the watermark
	SelectIdle                // the pool selects the blocks that are unused for long
	SelectUnused              // the pool selects blocks without readers, for a command
	SelectUsed                // the pool selects blocks with readers, for a command
	Copying                   // blocks are being copied
	Paused                    // after a copy of which nothing was stored
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{
		"off", "idle", "selectDue", "selectIdle", "selectUnused", "selectUsed", "copying", "paused",
	}[s]
}

// Event is a kind of event. Each is a method of Machine.
type Event uint8

// Events.
const (
	TickEvent     Event = iota // between two steps
	SelectedEvent              // the pool selected blocks
	CopiedEvent                // a copy has ended
	RetryEvent                 // the pause is over
	OffloadEvent               // an OffloadBlocks
	RestoreEvent               // a RestoreBlocks
	FlushEvent                 // a FlushBlocks
)

// String returns the name of the event.
func (e Event) String() string {
	return [...]string{"tick", "selected", "copied", "retry", "offload", "restore", "flush"}[e]
}
