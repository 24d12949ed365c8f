package preempt

// Phase is the phase of a preemption.
type Phase uint8

// Phases.
const (
	Created   Phase = iota // before Start
	Fencing                // the replica is to accept nothing new
	Migrating              // its sequences migrate to another replica
	Finishing              // they may finish until the deadline
	Saving                 // their KV blocks are copied to the tiers, and they are requeued
	Freeing                // the replica stops, and its memory is freed
	Ended
	phases
)

func (p Phase) String() string {
	return [...]string{"created", "fencing", "migrating", "finishing", "saving", "freeing", "ended"}[p]
}

// Event is a kind of event. Each is a method of Machine.
type Event uint8

// Events.
const (
	StartEvent    Event = iota // the preemption begins, or goes on after a crash of its owner
	FencedEvent                // the replica accepts no sequences
	MigratedEvent              // a migration command was answered
	DrainedEvent               // the replica has no sequences left
	SavedEvent                 // all sequences have been requeued
	LostEvent                  // the replica restarted or stopped; its sessions continue elsewhere
	TickEvent                  // a second has passed, or the timer fired
	FreedEvent                 // the memory is free
	GoneEvent                  // the node is lost, with the memory
)

func (e Event) String() string {
	return [...]string{"start", "fenced", "migrated", "drained", "saved", "lost", "tick", "freed", "gone"}[e]
}
