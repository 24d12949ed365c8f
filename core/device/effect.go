package device

import "time"

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Jobs. One of a kind runs for a lease at a time.
type (
	// Inspect reads the sizes of a model; Memory.Inspected or InspectFailed answers.
	Inspect struct{ Spec Spec }

	// Load fills the leased memory; Memory.Loaded or LoadFailed answers.
	Load struct {
		Spec   Spec
		Blocks int // KV blocks
	}

	// Free frees the memory of a lease; Memory.Freed or FreeFailed answers.
	Free struct{ Lease string }

	// Resize changes the number of KV blocks; Memory.Resized or NotResized answers.
	Resize struct {
		Lease   string
		Blocks  int
		Attempt uint64
	}

	// Allocate allocates memory for adapters; Memory.Allocated or NotAllocated answers.
	Allocate struct {
		Lease   string
		Pages   int
		Attempt uint64
	}
)

// Messages to replicas, and to the KV tier in the device's memory.
type (
	// AskShrink asks a replica to use no more than so many blocks; Memory.Shrunk or ShrinkRefused
	// answers, or Memory.Timer after a while.
	AskShrink struct {
		Replica Actor
		Lease   string
		Blocks  int
		Attempt uint64
		Timeout time.Duration
	}

	// NotifyReplica reports a lease's number of blocks to its replica.
	NotifyReplica struct {
		Replica Actor
		Lease   string
		Blocks  int
	}

	// NotifyTier reports a lease's new number of blocks to the tier.
	NotifyTier struct {
		Lease  string
		Blocks int
	}

	// DropFromTier reports to the tier that a lease has no blocks left.
	DropFromTier struct{ Lease string }
)

// Answers, one for each request.
type (
	// AnswerLoad reports that the model is resident.
	AnswerLoad struct {
		To          Request
		Model       Model
		BlocksAlone int // KV blocks that it would have as the only model
		Adopted     bool
		Took        time.Duration // 0 if it was adopted
	}

	// RefuseLoad refuses LoadAsked. Spec is the request's.
	RefuseLoad struct {
		To      Request
		Spec    Spec
		Refusal Refusal
	}

	// AnswerUnload reports that the lease is free.
	AnswerUnload struct {
		To    Request
		Lease string
		Bytes int64
	}

	// RefuseUnload refuses UnloadAsked.
	RefuseUnload struct {
		To      Request
		Refusal Refusal
	}

	// AnswerAdapters reports that there is memory for adapters.
	AnswerAdapters struct {
		To    Request
		Lease string
		Pages int
	}

	// RefuseAdapters refuses AdaptersAsked.
	RefuseAdapters struct {
		To      Request
		Refusal Refusal
	}
)

// Notices, for logs and for the quarantine.
type (
	// LossDetected reports that a job failed because the device is lost.
	LossDetected struct{ Detail string }

	// ModelLoaded reports a load.
	ModelLoaded struct {
		Lease string
		Bytes int64 // of weights
		Took  time.Duration
	}

	// ModelRefused reports a load that ended without a model.
	ModelRefused struct {
		Lease   string
		Refusal Refusal
	}

	// ModelUnloaded reports an unload.
	ModelUnloaded struct {
		Lease string
		Bytes int64
	}

	// ShortOfMemory reports that a lease needs memory that replicas yield, or cannot yield.
	ShortOfMemory struct {
		Lease  string
		Yields bool
		Why    string
	}

	// NotYielded reports that a replica yields no memory.
	NotYielded struct{ Lease, Why string }

	// ResizeFailed reports that KV memory could not be resized.
	ResizeFailed struct{ Lease, Detail string }

	// AllocateFailed reports that memory for adapters could not be allocated.
	AllocateFailed struct{ Lease, Detail string }

	// Ignored reports an event that changed nothing.
	Ignored struct {
		Lease string
		Event Event
		State string
		Why   string
	}
)

func (Inspect) isEffect()        {}
func (Load) isEffect()           {}
func (Free) isEffect()           {}
func (Resize) isEffect()         {}
func (Allocate) isEffect()       {}
func (AskShrink) isEffect()      {}
func (NotifyReplica) isEffect()  {}
func (NotifyTier) isEffect()     {}
func (DropFromTier) isEffect()   {}
func (AnswerLoad) isEffect()     {}
func (RefuseLoad) isEffect()     {}
func (AnswerUnload) isEffect()   {}
func (RefuseUnload) isEffect()   {}
func (AnswerAdapters) isEffect() {}
func (RefuseAdapters) isEffect() {}
func (LossDetected) isEffect()   {}
func (ModelLoaded) isEffect()    {}
func (ModelRefused) isEffect()   {}
func (ModelUnloaded) isEffect()  {}
func (ShortOfMemory) isEffect()  {}
func (NotYielded) isEffect()     {}
func (ResizeFailed) isEffect()   {}
func (AllocateFailed) isEffect() {}
func (Ignored) isEffect()        {}
