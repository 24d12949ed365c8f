package router

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

// AskSnapshot requests a snapshot from a peer's router.
type AskSnapshot struct{ Peer Actor }

// SendSnapshot sends a peer's router the Snapshot of this node.
type SendSnapshot struct{ Peer Actor }

// Watch begins the watch of a replica of this node, or of a peer's router.
type Watch struct{ Actor Actor }

// KeepReplica keeps the report of a replica for queries and snapshots, instead of an earlier one of
// this model and name. It is report number At of the event.
type KeepReplica struct {
	Model, Name string
	At          int
}

// DropReplica drops the report of a replica.
type DropReplica struct{ Model, Name string }

// KeepStatus keeps the status of a deployment for queries and snapshots, instead of an earlier one.
// It is status number At of the event.
type KeepStatus struct {
	Deployment string
	At         int
}

// DropStatus drops the status of a deployment.
type DropStatus struct{ Deployment string }

// Share adds the report or status of the event to the next announcement.
type Share struct{}

// Announce sends the next announcement to the peers' routers: what was shared since the last one,
// and the names of replicas that have ended and of deployments that were withdrawn.
type Announce struct {
	To              []Actor
	Sequence        uint64
	Gone, Withdrawn []string
}

// CorrectAdapters sends a replica of this node the differences between its adapters and the
// catalogue.
type CorrectAdapters struct{ Replica Actor }

// Store adds the deployment of the event to the cache of stored deployments.
type Store struct{}

// DropStored removes a deployment from the cache of stored deployments.
type DropStored struct{ Deployment string }

// ReportSynced reports, once, that the router knows everything that the others knew before it.
type ReportSynced struct{}

// Ignored reports an event that changed nothing.
type Ignored struct {
	Event Event
	Node  string
	Why   string
}

func (AskSnapshot) isEffect()     {}
func (SendSnapshot) isEffect()    {}
func (Watch) isEffect()           {}
func (KeepReplica) isEffect()     {}
func (DropReplica) isEffect()     {}
func (KeepStatus) isEffect()      {}
func (DropStatus) isEffect()      {}
func (Share) isEffect()           {}
func (Announce) isEffect()        {}
func (CorrectAdapters) isEffect() {}
func (Store) isEffect()           {}
func (DropStored) isEffect()      {}
func (ReportSynced) isEffect()    {}
func (Ignored) isEffect()         {}
