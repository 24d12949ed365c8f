package planner

import (
	"time"

	"troupe/core/schedule"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

type (
	// Acquire acquires the leader's lease if it is free. The caller reports Machine.Acquired.
	Acquire struct{}

	// Observe collects the deployments and nodes. The caller reports Machine.Viewed.
	Observe struct{ Round uint64 }

	// Survey asks the devices of nodes. The caller reports Machine.Surveyed.
	Survey struct {
		Round uint64
		Nodes []Node
	}

	// MakePlan makes a plan, and gathers what speaks for and against the devices for some models. The caller
	// reports Machine.Planned.
	MakePlan struct {
		Round    uint64
		Snapshot schedule.Snapshot
		Explain  []string
	}

	// Store stores the replicas of a deployment, if it still has the given revision. The caller reports
	// Machine.Stored.
	Store struct {
		Round uint64
		Write
	}

	// Refuse tells a deployment why it has fewer replicas than it wants, or that none is missing any longer.
	Refuse struct {
		Name     string
		Leader   string // node that leads the deployment
		Revision uint64 // that was planned
		Unmet    schedule.Unmet
	}

	// Prefetch tells a replica which adapters to fetch ahead.
	Prefetch struct {
		Model string
		schedule.Fetch
	}

	// Ended reports that a round with a plan has ended.
	Ended struct{ Record *Record }

	// Answer answers questions with a plan, or with none if this node no longer leads.
	Answer struct {
		Asks   []Ask
		Record *Record // nil: none
	}

	// Forget drops questions that get no answer: it is not awaited any longer, or too many others came later.
	Forget struct{ Asks []Ask }

	// Ignored reports an event that changed nothing.
	Ignored struct {
		State State
		Event Event
		Why   string
	}
)

func (Acquire) isEffect()  {}
func (Observe) isEffect()  {}
func (Survey) isEffect()   {}
func (MakePlan) isEffect() {}
func (Store) isEffect()    {}
func (Refuse) isEffect()   {}
func (Prefetch) isEffect() {}
func (Ended) isEffect()    {}
func (Answer) isEffect()   {}
func (Forget) isEffect()   {}
func (Ignored) isEffect()  {}

// Write is a deployment to be stored.
type Write struct {
	Name     string
	Revision uint64 // that was planned
	Term     uint64
	From, To int // replicas
	Intended int // of To, without those that an operator has taken away for a while
	Replicas []Assignment
	// Withdrawn has the replicas that leave if they are there.
	Withdrawn []string
	Changes   []Change
	Released  string // what held the deployment until now, and ends with this write; empty: nothing
	Outcome   Outcome
	Failure   string // with NotStored and Unknown
}

// Change is a replica that a write adds or withdraws.
type Change struct {
	Replica   string
	Withdrawn bool
	Why       string
}

// Outcome is how a write ended.
type Outcome uint8

// Outcomes.
const (
	InFlight  Outcome = iota // it has not ended
	Done                     // stored
	Conflict                 // the deployment had another revision
	NotStored                // the store refused it
	Unknown                  // it was not confirmed; it may still be applied
)

func (o Outcome) String() string {
	return [...]string{"", "stored", "conflict", "not stored", "not confirmed"}[o]
}

// Ask is a question of an operator.
type Ask struct {
	ID    string
	Model string // to be explained; empty: the whole plan
}

// Record is what is remembered of a round.
type Record struct {
	Number   uint64 // of its plan in this term; 0: nothing of it was stored
	Term     uint64
	At       time.Time // when it began
	Causes   []string
	Steps    []Step
	Snapshot schedule.Snapshot
	Plan     schedule.Plan
	Verdicts map[string][]schedule.Verdict // by model, of those that were asked for
	Planned  []Deployment
	Writes   []Write
	Outcome  string
}

// Changed reports whether the round changed a deployment, or tried to.
func (r *Record) Changed() bool { return len(r.Writes) > 0 }

// Step is a step of a round.
type Step struct {
	Name   string
	Took   time.Duration
	Result string
}

// Result is a plan, and what was asked for with it.
type Result struct {
	Plan     schedule.Plan
	Verdicts map[string][]schedule.Verdict // by model
}
