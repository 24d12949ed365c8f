package device

import (
	"time"

	"troupe/core/residency"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Jobs. At most one job of each kind runs for a lease.
type (
	// Inspect reads the sizes of a model. The caller reports Memory.Inspected or InspectFailed.
	Inspect struct{ Spec Spec }

	// LoadWeights fills the leased memory of a copy. The caller reports Memory.WeightsLoaded or
	// WeightsFailed.
	LoadWeights struct {
		Copy   uint64
		Source residency.Source
	}

	// FreeWeights frees the memory of a copy. With Park, the weights are first copied to the host cache. If that
	// fails, they are freed anyway, or kept with OrKeep. Source has the revision that was loaded. The caller
	// reports Memory.WeightsFreed or WeightsNotFreed.
	FreeWeights struct {
		Copy         uint64
		Park, OrKeep bool
		Source       residency.Source
	}

	// RevokeReaders makes the readers of a copy end. The caller reports Memory.ReadEnded for each reader
	// that has ended.
	RevokeReaders struct {
		Copy uint64
		Why  string
	}

	// Open allocates the KV memory of a lease whose weights are on the device. The caller reports
	// Memory.Loaded or LoadFailed.
	Open struct {
		Spec   Spec
		Owner  Actor
		Copy   uint64
		Blocks int // KV blocks
	}

	// Free frees the memory of a lease without its weights. The caller reports Memory.Freed or
	// FreeFailed.
	Free struct{ Lease string }

	// Resize changes the number of KV blocks. The caller reports Memory.Resized or NotResized.
	Resize struct {
		Lease   string
		Blocks  int
		Attempt uint64
	}

	// Allocate allocates memory for adapters, of which Min pages are never asked back. The caller reports
	// Memory.Allocated or NotAllocated.
	Allocate struct {
		Lease   string
		Pages   int
		Min     int
		Attempt uint64
	}

	// ChangePages changes the number of pages for adapters. It frees only pages that the pool has given
	// back, so there may be more in the end. The caller reports Memory.PagesChanged or PagesNotChanged.
	ChangePages struct {
		Lease   string
		Pages   int
		Attempt uint64
	}
)

// Messages to replicas, and to the KV tier in the device's memory.
type (
	// AskShrink asks a replica to use at most the given number of blocks. The caller reports
	// Memory.Shrunk or ShrinkRefused, or Memory.Timer if the replica does not answer in time.
	AskShrink struct {
		Replica Actor
		Lease   string
		Blocks  int
		Attempt uint64
		Timeout time.Duration
	}

	// NotifyReplica reports the number of blocks of a lease to its replica.
	NotifyReplica struct {
		Replica Actor
		Lease   string
		Blocks  int
	}

	// AskPool asks an adapter pool to give back pages until it has the given number. The caller reports
	// Memory.PoolShrunk, or Memory.PoolTimer if the pool does not answer in time.
	AskPool struct {
		Pool    Actor
		Lease   string
		Pages   int
		Attempt uint64
		Timeout time.Duration
	}

	// NotifyPool reports the number of pages of a lease to its pool. The change with this number has
	// ended, and so have all earlier ones.
	NotifyPool struct {
		Pool    Actor
		Lease   string
		Pages   int
		Attempt uint64
	}

	// NotifyTier reports the new number of blocks of a lease to the tier.
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
		BlocksAlone int // KV blocks that it would have as the only model on the device
		Adopted     bool
		Took        time.Duration // 0 if it was adopted
		Shared      bool          // the weights were on the device
	}

	// RefuseLoad refuses LoadAsked. Spec is that of the request.
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

	// AnswerEvict reports that unused weights are being freed.
	AnswerEvict struct{ To Request }

	// RefuseEvict refuses EvictAsked. Model is the one that is not on the device, if that is why.
	RefuseEvict struct {
		To      Request
		Model   string
		Refusal Refusal
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

	// WeightsMerged reports that a copy is freed because another one has the same content.
	WeightsMerged struct{ Copy, Into uint64 }

	// WeightsEvicted reports that an unused copy is freed.
	WeightsEvicted struct {
		Copy residency.Copy
		Why  string
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

	// ShortOfMemory reports that a lease needs memory that other replicas yield, or that none can
	// yield.
	ShortOfMemory struct {
		Lease  string
		Yields bool
		Why    string
	}

	// NotYielded reports that a replica did not yield memory.
	NotYielded struct{ Lease, Why string }

	// ResizeFailed reports that KV memory could not be resized.
	ResizeFailed struct{ Lease, Detail string }

	// NotGivenBack reports that a pool did not give back pages for adapters in time.
	NotGivenBack struct{ Lease, Why string }

	// PagesUnchanged reports that the number of pages for adapters could not be changed.
	PagesUnchanged struct{ Lease, Detail string }

	// AllocateFailed reports that memory for adapters could not be allocated.
	AllocateFailed struct{ Lease, Detail string }

	// WeightsIgnored reports an event of a copy that changed nothing.
	WeightsIgnored struct {
		Copy  uint64
		Event residency.Event
		State residency.State
		Why   string
	}

	// Ignored reports an event that changed nothing.
	Ignored struct {
		Lease string
		Event Event
		State string
		Why   string
	}
)

func (Inspect) isEffect()        {}
func (LoadWeights) isEffect()    {}
func (FreeWeights) isEffect()    {}
func (RevokeReaders) isEffect()  {}
func (Open) isEffect()           {}
func (AnswerEvict) isEffect()    {}
func (RefuseEvict) isEffect()    {}
func (WeightsMerged) isEffect()  {}
func (WeightsEvicted) isEffect() {}
func (Free) isEffect()           {}
func (Resize) isEffect()         {}
func (Allocate) isEffect()       {}
func (ChangePages) isEffect()    {}
func (AskPool) isEffect()        {}
func (NotifyPool) isEffect()     {}
func (NotGivenBack) isEffect()   {}
func (PagesUnchanged) isEffect() {}
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
func (WeightsIgnored) isEffect() {}
func (Ignored) isEffect()        {}
