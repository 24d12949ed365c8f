package device

import (
	"time"

	"troupe/core/hbm"
	"troupe/core/verify"
)

// Actor is the address of an actor. The zero value is none.
type Actor struct{ Address, ID string }

// Request is a command to be answered.
type Request struct {
	ID   string
	From Actor
}

// Spec describes a model to be loaded.
type Spec struct {
	Lease, Path  string
	Model        string // the deployment
	Started      uint64 // start of the replica's incarnation; later ones have a larger number
	BlockTokens  int
	Blocks       int // number of KV blocks set by the operator; 0: as many as memory allows
	StepTokens   int
	MaxSequences int
	MaxAdapters  int
	MaxRank      int // maximum rank of an adapter
	AdapterPages int // 0: none until LeaseAdapters
	// Revision is the digest of the files to load; empty: any.
	Revision string
	// Deploy counts the models.deploy commands that may have changed the files.
	Deploy uint64
}

// Size is the device memory that a model needs.
type Size struct {
	Need            hbm.Need // excluding memory for adapters
	Weights         int64    // bytes
	Workspace       int64    // bytes
	Graphs          int64    // bytes, at most; the device's driver allocates them
	BlockBytes      int64    // of a KV block
	MaxBlocks       int      // maximum number of KV blocks that it can use
	MaxAdapters     int      // in one step
	PagesPerAdapter int      // pages of the largest adapter
}

// Files describes the files of a model.
type Files struct {
	Revision string // digest, as far as it is known without reading them; empty: not known
	Layout   string // of the weights in the memory of this kind of device
}

// Model is a model in the device's memory.
type Model struct {
	Lease        string
	Copy         uint64 // number of the copy of its weights
	Handle       string // opens the memory of the lease
	Owner        Actor  // the only one that gets the handle
	Size         Size
	Blocks       int   // KV blocks
	BlockBytes   int64 // of a KV block
	AdapterPages int   // for adapters
	AdapterMin   int   // of AdapterPages, those that are never asked back

	Weights, Revision string // digests
	Deploy            uint64
	ContextTokens     int
	Vocab             int
	EOS               []uint32
	From, FromWhy     string        // source of the weights, and why they were loaded from there
	Floor             time.Duration // least time of that load; 0 if unknown
	Verify            time.Duration // of the canary that the weights passed
	Canary            verify.Record // that it gave; without tokens: none has run
}

// Report is a replica's report on its KV memory.
type Report struct {
	Blocks       int
	MinBlocks    int // blocks that it never yields
	WantedBlocks int // blocks that it could use in addition
	Priority     int // of the model; the replica with the lowest priority yields first
	LastUsed     int64
	Standby      bool // it is on standby, and needs no more than MinBlocks
	// StandbyWanted means that its wanted level is standby; it may still have sequences.
	StandbyWanted bool
	Serving       bool // it accepts sequences
	Engine        Engine
}

// PoolReport is the report of a replica's adapter pool on its pages.
type PoolReport struct {
	Pages   int
	Wanted  int  // pages that it could use at once in addition
	Used    int  // pages with adapters that are in use or being loaded
	Shrinks bool // the pool follows an AskPool
}

// Engine describes the engine of a replica.
type Engine struct {
	Since   time.Time // when it was ready; zero: it is not
	Graphs  int       // that it captured
	Capture time.Duration
}

// Cause is the cause of a failure.
type Cause uint8

// Causes.
const (
	Other Cause = iota
	OutOfMemory
	RevisionDiffers
	DeviceLost
	Unsupported
)

// Failure is a failed job.
type Failure struct {
	Cause  Cause
	Detail string
	Found  string // revision of the files, if it is not the requested one

	Unverified *Unverified // weights failed their check; nil: it is another failure
}

// Unverified is weights that compute other tokens than at the first load, from each source.
type Unverified struct {
	Rejections []verify.Rejection
	Remedy     string
}

// Reason is the reason why a request is refused.
type Reason uint8

// Reasons.
const (
	NotReady Reason = iota
	InQuarantine
	Failed        // the job failed; Detail is its error
	DeviceFailed  // the job failed because the device is lost
	NoMemory      // not enough memory is free, and replicas cannot yield enough
	WeightsDiffer // the files or the loaded model have another revision
	Outdated      // the model was loaded before the latest models.deploy command
	NotFound      // the lease is not resident
	NotFreed      // freeing the memory failed
	NotSupported
	InUse    // a replica uses the weights
	NotOwner // the lease belongs to another actor, or to a later incarnation
)

func (r Reason) String() string {
	return [...]string{"not ready", "in quarantine", "failed", "device failed", "no memory", "weights differ",
		"outdated", "not found", "not freed", "not supported", "in use", "not owner"}[r]
}

// Refusal is the refusal of a request.
type Refusal struct {
	Reason     Reason
	Detail     string        // for people; empty with InQuarantine and Outdated
	Found      string        // revision of the files or of the model, if it is not the requested one
	Overload   *hbm.Overload // how the model exceeds the budget; nil: refused for another reason
	Evictable  int64         // with Overload: bytes of unused weights, which would go
	RetryAfter time.Duration // 0: not known

	Unverified *Unverified // why it failed; nil: for another reason
}
