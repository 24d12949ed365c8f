package replica

import (
	"time"

	"troupe/core/batch"
	"troupe/core/lora"
)

// Reason is the reason why something is refused or a sequence is interrupted.
type Reason uint8

// Reasons.
const (
	NotReady Reason = iota
	IsDraining
	WeightsDiffer
	EngineFailed
	NotFinite
	InvalidArgument
	Unsupported
	NotFound
	Conflict
	AlreadyExists
	QueueFull
	TooLong
	NoMemory
	LoadFailed
	ReplicaPreempted // the replica is preempted; its sessions wait for another one
	IsFaulty
	Relayed // refused for the reason in the message that caused it
)

func (r Reason) String() string {
	return [...]string{"not-ready", "draining", "weights-differ", "engine-failed", "not-finite", "invalid-argument",
		"unsupported", "not-found", "conflict", "already-exists", "queue-full", "too-long", "no-memory", "load-failed",
		"preempted", "faulty", "relayed"}[r]
}

// Refusal says why something was refused, and after what time it may be tried again.
type Refusal struct {
	Reason     Reason
	Detail     string
	RetryAfter time.Duration
}

// RetryAfter of refusals.
const (
	RetryAfter     = 20 * time.Millisecond // of refusals that are expected to end soon
	RetryQueueFull = time.Second           // of a full queue
)

var batchReasons = map[batch.Reason]Reason{
	batch.QueueFull: QueueFull, batch.TooLong: TooLong, batch.Duplicate: AlreadyExists,
	batch.Invalid: InvalidArgument, batch.Finished: Conflict, batch.NoRoom: NoMemory,
	batch.NoAdapter: Unsupported, batch.AdapterLoading: NotReady,
}

// FromBatch converts a refusal of the scheduler.
func FromBatch(r *batch.Refusal) *Refusal {
	out := &Refusal{Reason: batchReasons[r.Reason], Detail: r.Detail}
	if r.Reason == batch.QueueFull {
		out.RetryAfter = RetryQueueFull
	}
	return out
}

var poolReasons = map[lora.Reason]Reason{
	lora.Unknown: NotFound, lora.NoRoom: QueueFull, lora.TooLarge: NoMemory, lora.Failed: LoadFailed,
	lora.Duplicate: Conflict,
}

// Accepting returns why no sequence is accepted at the moment, or nil.
func (m *Machine) Accepting() *Refusal {
	if m.Faulty() {
		why := m.faultRefusal()
		return &why
	}
	switch m.state {
	case Serving:
		return nil
	case Suspending, Standby:
		return &Refusal{IsDraining, m.title() + " is on standby", RetryAfter}
	case Draining, Saving, Saved:
		return &Refusal{IsDraining, m.title() + " is draining", RetryAfter}
	}
	return &Refusal{NotReady, m.title() + " is not serving yet", RetryAfter}
}

// CheckRevision returns why output computed by another revision cannot be continued here, or nil.
// Without a digest, revisions are not compared.
func (m *Machine) CheckRevision(computed string) *Refusal {
	own := m.model.RevisionDigest
	if computed == "" || own == "" || computed == own {
		return nil
	}
	return &Refusal{WeightsDiffer, m.title() + " serves revision " + short(own) +
		", but the sequence was started with revision " + short(computed), RetryAfter}
}

// CheckAdapter returns why the adapter of a sequence cannot be served here, or nil.
func (m *Machine) CheckAdapter(a Adapter) *Refusal {
	switch {
	case a == Adapter{}:
		return nil
	case a.Name == "" || a.Name != a.Requested || !a.HasPath:
		return &Refusal{Reason: InvalidArgument,
			Detail: "adapter " + a.Requested + " has an incomplete spec; register it"}
	case m.pins == nil:
		return &Refusal{Reason: Unsupported, Detail: m.title() + " takes no adapters; request model " + m.cfg.Model}
	}
	return m.checkBase(a)
}

// checkBase returns why an adapter that was registered for certain weights does not fit the loaded
// ones, or nil.
func (m *Machine) checkBase(a Adapter) *Refusal {
	own := m.model.WeightsDigest
	if a.Base == "" || own == "" || a.Base == own {
		return nil
	}
	return &Refusal{Reason: WeightsDiffer, Detail: "adapter " + a.Name + " was registered for weights " +
		short(a.Base) + " of model " + m.cfg.Model + ", which now has " + short(own) + "; register it again"}
}

func (m *Machine) title() string { return "replica " + m.cfg.Name }

// short returns the first characters of a digest, as error details show it.
func short(digest string) string { return digest[:min(len(digest), 12)] }
