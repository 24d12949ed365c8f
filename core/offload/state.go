package offload

// State is the state of a replica's offload.
type State uint8

// States.
const (
	Off          State = iota // there is no tier below HBM, or blocks may not leave HBM
	Idle                      // nothing is being copied
	SelectDue                 // the pool selects the blocks above the watermark
	SelectIdle                // the pool selects idle blocks
	SelectUnused              // the pool selects blocks without readers, for a command
	SelectUsed                // the pool selects blocks with readers, for a command
	Copying                   // blocks are being copied
	Paused                    // waiting for the retry after a copy that stored no block
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
	TickEvent     Event = iota // no step is in flight
	SelectedEvent              // the pool selected blocks
	CopiedEvent                // a copy has ended
	RetryEvent                 // the pause is over
	OffloadEvent               // an OffloadBlocks command
	RestoreEvent               // a RestoreBlocks command
	FlushEvent                 // a FlushBlocks command
)

// String returns the name of the event.
func (e Event) String() string {
	return [...]string{"tick", "selected", "copied", "retry", "offload", "restore", "flush"}[e]
}
