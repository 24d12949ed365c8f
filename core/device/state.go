package device

// Phase is the phase of a lease, which is the memory of one model.
type Phase uint8

// Phases.
const (
	Absent     Phase = iota // the lease has no memory
	Inspecting              // the model's sizes are being read
	Waiting                 // waits for memory that other replicas yield
	Loading                 // the memory is leased, and the weights are being loaded
	Opening                 // the weights are on the device, and the KV memory is being allocated
	Resident                // the model serves a replica
	Freeing                 // the memory is being freed
)

func (p Phase) String() string {
	return [...]string{"absent", "inspecting", "waiting", "loading", "opening", "resident", "freeing"}[p]
}

// KV is the state of a lease's KV memory.
type KV uint8

// States of KV memory.
const (
	Unused   KV = iota // the model is not resident
	Steady             // the number of blocks is not being changed
	Yielding           // the replica was asked to stop using some blocks
	Resizing           // the memory is being resized
)

func (k KV) String() string { return [...]string{"unused", "steady", "yielding", "resizing"}[k] }

// Adapters is the state of a lease's memory for adapters.
type Adapters uint8

// States of adapter memory.
const (
	None       Adapters = iota // there is no memory for adapters
	Queued                     // waits for memory that replicas yield
	Allocating                 // the memory is leased and being allocated
	Leased                     // the memory can hold adapters
	Recalled                   // the pool was asked to give back some pages
	Changing                   // pages are being added or freed
)

func (a Adapters) String() string {
	return [...]string{"none", "queued", "allocating", "leased", "recalled", "changing"}[a]
}

// Event is a kind of event of one lease.
type Event uint8

// Events. Those without a method of Memory are raised by the machine itself.
const (
	LoadAsked     Event = iota // a replica requests the model
	Inspected                  // the sizes are known
	InspectFailed              // the sizes cannot be read
	Granted                    // there is memory for the model
	Denied                     // there is not enough memory, and replicas cannot yield enough
	WeightsReady               // the weights are on the device
	WeightsFailed              // the weights could not be loaded
	Loaded                     // the KV memory is allocated
	LoadFailed                 // the KV memory could not be allocated
	Recovered                  // an earlier incarnation left the model in memory
	UnloadAsked                // a replica returns the model, or the device is lost
	Settled                    // a change of the memory has ended, or none was in progress
	Freed                      // the memory is free
	FreeFailed                 // the memory could not be freed

	Reported   // the replica reported on its KV memory
	Chosen     // the replica is to yield blocks
	Shrunk     // the replica no longer uses the blocks
	Kept       // the replica does not yield the blocks
	TimedOut   // the replica has not answered in time
	Grown      // there are free pages for more blocks
	Resized    // the KV memory was changed
	NotResized // the KV memory could not be resized

	Opened  // the model became resident
	Leaving // the memory of the model is about to be freed
	Closed  // the memory of the model is free

	AdaptersAsked // a replica requests memory for adapters
	PagesGranted  // there is memory for adapters
	PagesDenied   // there is not enough memory, and replicas cannot yield enough
	Allocated     // the memory for adapters is allocated
	NotAllocated  // the memory for adapters could not be allocated

	PoolReported    // the pool reported on its pages, and may want more
	PoolChosen      // the pool is to give back pages
	PoolShrunk      // the pool has given back pages
	PoolTimedOut    // the pool has not answered in time
	PagesChanged    // pages were added or freed
	PagesNotChanged // pages could not be added or freed
)

func (e Event) String() string {
	return [...]string{
		"load", "inspected", "inspect failed", "granted", "denied", "weights ready",
		"weights failed", "loaded", "load failed", "recovered", "unload",
		"settled", "freed", "free failed", "reported", "chosen", "shrunk", "kept", "timed out", "grown", "resized",
		"not resized", "opened", "leaving", "closed", "adapters", "granted", "denied", "allocated", "not allocated",
		"reported", "chosen", "shrunk", "timed out", "changed", "not changed",
	}[e]
}
