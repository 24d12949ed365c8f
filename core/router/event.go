package router

import (
	"time"

	"troupe/core/backend"
	"troupe/core/route"
	"troupe/core/schedule"
)

// Actor is the address of an actor.
type Actor struct{ Address, ID string }

// Member is a member of the cluster.
type Member struct {
	Name, ID string // ID is that of the member's process
	Router   Actor  // unused for this node
	// Deployments is the group of the deployments that the member leads.
	Deployments Actor
	Leaving     bool // the node is shutting down
}

// Report is a replica's report about itself, and the changes in its blocks since its last one.
type Report struct {
	route.Replica // the machine sets Node
	Model         string
	Actor         Actor
	Incarnation   uint64
	Evicted       []uint64 // applied before Committed
	Committed     []uint64
	Snapshot      bool // Committed lists all blocks
}

// TierReport lists the changes in the blocks of a KV tier.
type TierReport struct {
	Name               string
	Actor              Actor
	Evicted, Committed []uint64
	Snapshot           bool // Committed lists all blocks
}

// Status is the status of a deployment, as its leader announces it.
type Status struct {
	Deployment string
	Node       string // node that runs the deployment's actor
	Term       uint64
	Failure    Refusal // why the deployment failed; zero: it did not
	Level      string  // of all its replicas, such as "standby"; empty: some serve, or are to serve
}

// Announcement is the message of a peer about the changes on its node.
type Announcement struct {
	Node        string
	Incarnation uint64 // incarnation of the peer's router
	Sequence    uint64 // number; one more than that of the previous announcement
	Snapshot    bool   // the announcement describes the entire node
	Sessions    int    // open calls of the node's gateway
	Demand      bool   // the demand at the node's gateway is in the message
	Replicas    []Report
	Tiers       []TierReport
	Gone        []string // replicas that have ended
	Statuses    []Status
	Withdrawn   []string // deployments whose actors no longer run on the node
}

// Stored is a stored deployment.
type Stored struct {
	Name       string
	At         uint64        // revision of what is stored
	Rest       schedule.Rest // whether it has replicas, and if not, what starts them
	Wakes      bool          // a request wakes it
	MaxWaiting int           // requests that may wait at this router while no replica serves
	Revision   string        // digest of the deployment's files; empty: unknown
	// Level is the wanted level of the replicas, such as "standby", and Levels that of single ones, by
	// name. Active has no name.
	Level  string
	Levels map[string]string
	// Preempted means that all replicas were preempted.
	Preempted bool
	Engine    backend.Spec // of the replicas
}

// event is one event of the tables. Only the fields of its kind are set.
type event struct {
	kind   Event
	now    time.Time
	peer   *peer
	member Member
	news   *Announcement
}

// node returns the node that an event is about; empty means this node.
func (e event) node() string {
	if e.peer == nil {
		return ""
	}
	return e.peer.name
}
