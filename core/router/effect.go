package router

import (
	"time"

	"troupe/core/route"
)

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// Answer answers a request's session: with a replica, with a refusal, or with the confirmation that
// the request waits. In the last case another Answer follows.
type Answer struct {
	To      Actor
	ID      string
	Routed  Routed  // zero: refused or waiting
	Refusal Refusal // zero: routed or waiting
}

// Waits reports whether the request waits.
func (a Answer) Waits() bool { return a.Routed == Routed{} && a.Refusal == Refusal{} }

// WakeModel tells the group that leads a deployment how many requests wait here until a replica
// serves, and how many of them may wake the deployment.
type WakeModel struct {
	To             Actor
	Deployment     string
	Waiting, Wakes int
	Oldest         time.Duration // age of the oldest request that may wake the deployment; 0: there is none
	Stored         uint64        // revision of the stored deployment, as far as this router knows
}

// AskSnapshot requests a snapshot from a peer's router.
type AskSnapshot struct{ Peer Actor }

// SendSnapshot sends a peer's router the Snapshot of this node.
type SendSnapshot struct{ Peer Actor }

// Watch starts watching a replica of this node or a peer's router.
type Watch struct{ Actor Actor }

// KeepReplica stores a replica's report for queries and snapshots, in place of an earlier report
// with this model and name. The report is number At in the event.
type KeepReplica struct {
	Model, Name string
	At          int
}

// DropReplica drops the report of a replica.
type DropReplica struct{ Model, Name string }

// KeepStatus stores the status of a deployment for queries and snapshots, in place of an earlier
// one. The status is number At in the event.
type KeepStatus struct {
	Deployment string
	At         int
}

// DropStatus drops the status of a deployment.
type DropStatus struct{ Deployment string }

// KeepDemand stores the demand at the gateway of a node for queries and snapshots, in place of an earlier
// report.
type KeepDemand struct{ Node string }

// DropDemand drops the demand at the gateway of a node.
type DropDemand struct{ Node string }

// Share adds the report, status or demand of the event to the next announcement.
type Share struct{}

// Announce sends the next announcement to the peers' routers: the reports and statuses shared since
// the last one, and the names of replicas that have ended and of deployments that were withdrawn.
type Announce struct {
	To              []Actor
	Sequence        uint64
	Gone, Withdrawn []string
}

// AskBlocks requests a report with all blocks from a replica of this node.
type AskBlocks struct{ Replica Actor }

// CorrectAdapters sends a replica of this node the differences between its adapters and the
// adapters in the catalogue.
type CorrectAdapters struct{ Replica Actor }

// Store adds the deployment of the event to the cache of stored deployments.
type Store struct{}

// DropStored removes a deployment from the cache of stored deployments.
type DropStored struct{ Deployment string }

// Decided reports a decision that was made while Record was on: what the policy saw, and what it chose. Of a request
// that waits, only the last decision is reported.
type Decided struct {
	Request string // ID
	Model   string
	Saw     route.View // zero: the model is not known here, or not deployed
	Choice  string     // empty: the request is refused
	Refusal Refusal    // zero: it is routed
	Cause   string     // why it is routed again; empty: it is the first time
}

// ReportSynced reports, once, that the router knows everything that the other routers knew when it
// started.
type ReportSynced struct{}

// Ignored reports an event that changed nothing.
type Ignored struct {
	Event Event
	Node  string
	Why   string
}

func (Answer) isEffect()          {}
func (WakeModel) isEffect()       {}
func (AskSnapshot) isEffect()     {}
func (SendSnapshot) isEffect()    {}
func (Watch) isEffect()           {}
func (KeepReplica) isEffect()     {}
func (DropReplica) isEffect()     {}
func (KeepStatus) isEffect()      {}
func (DropStatus) isEffect()      {}
func (KeepDemand) isEffect()      {}
func (DropDemand) isEffect()      {}
func (Share) isEffect()           {}
func (Announce) isEffect()        {}
func (AskBlocks) isEffect()       {}
func (CorrectAdapters) isEffect() {}
func (Store) isEffect()           {}
func (DropStored) isEffect()      {}
func (Decided) isEffect()         {}
func (ReportSynced) isEffect()    {}
func (Ignored) isEffect()         {}
