package device

// Phase is the phase of a lease: of the memory of one model.
type Phase uint8

// Phases.
const (
	Absent     Phase = iota // has no memory
	Inspecting              // the model's sizes are being read
	Waiting                 // for memory that other replicas yield
	Loading                 // its memory is leased and being filled
	Resident                // serves a replica
	Freeing                 // its memory is being freed
)

func (p Phase) String() string {
	return [...]string{"absent", "inspecting", "waiting", "loading", "resident", "freeing"}[p]
}

// KV is the state of a lease's KV memory.
type KV uint8

// States of KV memory.
const (
	Unused   KV = iota // the model is not resident
	Steady             // has a fixed number of blocks
	Yielding           // its replica was asked to stop using some blocks
	Resizing           // its memory is being changed
)

func (k KV) String() string { return [...]string{"unused", "steady", "yielding", "resizing"}[k] }

// Adapters is the state of a lease's memory for adapters.
type Adapters uint8

// States of adapter memory.
const (
	None       Adapters = iota // has no memory
	Queued                     // waits for memory that replicas yield
	Allocating                 // its memory is leased and being allocated
	Leased                     // can hold adapters
)

func (a Adapters) String() string { return [...]string{"none", "queued", "allocating", "leased"}[a] }

// Event is a kind of event of one lease.
type Event uint8

// Events. The machine itself causes those that no method of Memory reports.
const (
	LoadAsked     Event = iota // a replica requests the model
	Inspected                  // the sizes are known
	InspectFailed              // they cannot be read
	Granted                    // there is memory for the model
	Denied                     // there is none, and replicas yield none
	Loaded                     // the memory is filled
	LoadFailed                 // the load failed
	Recovered                  // an earlier incarnation left the model in memory
	UnloadAsked                // a replica returns the model, or the device is lost
	Settled                    // the memory is, for now, not being changed
	Freed                      // the memory is free
	FreeFailed                 // freeing it failed

	Reported   // the replica reported on its KV memory
	Chosen     // the replica is to yield blocks
	Shrunk     // the replica no longer uses the blocks
	Kept       // the replica does not yield them
	TimedOut   // the replica has not answered for a while
	Grown      // there are free pages for more blocks
	Resized    // the KV memory was changed
	NotResized // changing it failed

	Opened  // the model became resident
	Leaving // its memory is about to be freed
	Closed  // its memory is free

	AdaptersAsked // a replica requests memory for adapters
	PagesGranted  // there is memory for adapters
	PagesDenied   // there is none, and replicas yield none
	Allocated     // the memory for adapters is allocated
	NotAllocated  // allocating it failed
)

func (e Event) String() string {
	return [...]string{
		"load", "inspected", "inspect failed", "granted", "denied", "loaded", "load failed", "recovered", "unload",
		"settled", "freed", "free failed", "reported", "chosen", "shrunk", "kept", "timed out", "grown", "resized",
		"not resized", "opened", "leaving", "closed", "adapters", "granted", "denied", "allocated", "not allocated",
	}[e]
}
