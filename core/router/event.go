package router

import (
	"time"

	"troupe/core/route"
)

// Actor is the address of an actor.
type Actor struct{ Address, ID string }

// Member is a member of the cluster.
type Member struct {
	Name, ID string // ID is that of its process
	Router   Actor  // unused for this node
	Leaving  bool   // the node is shutting down
}

// Report is a replica's report about itself, and the changes in its blocks since its last one.
type Report struct {
	route.Replica // Node is set by the machine
	Model         string
	Actor         Actor
	Incarnation   uint64
	Evicted       []uint64 // applied first
	Committed     []uint64
	Snapshot      bool // Committed is complete
}

// TierReport lists the changes in the blocks of a KV tier.
type TierReport struct {
	Name               string
	Actor              Actor
	Evicted, Committed []uint64
	Snapshot           bool // Committed is complete
}

// Status is the status of a deployment, as its leader announces it.
type Status struct {
	Deployment string
	Node       string // that runs the deployment
	Term       uint64
	Failure    Refusal // of a failed deployment; zero: none
}

// Announcement is the message of a peer about the changes on its node.
type Announcement struct {
	Node        string
	Incarnation uint64 // of its router
	Sequence    uint64 // one more than that of the last announcement
	Snapshot    bool   // the announcement is complete
	Sessions    int    // open calls of the node's gateway
	Replicas    []Report
	Tiers       []TierReport
	Gone        []string // replicas that have ended
	Statuses    []Status
	Withdrawn   []string // deployments whose actors no longer run there
}

// Stored is a stored deployment.
type Stored struct {
	Name     string
	Stopped  bool   // it has 0 replicas
	Revision string // digest of its files; empty: unknown
}

// event is one event of the tables. Only the fields of its kind are set.
type event struct {
	kind   Event
	now    time.Time
	peer   *peer
	member Member
	news   *Announcement
}

// node returns the node that an event is about; empty: this one.
func (e event) node() string {
	if e.peer == nil {
		return ""
	}
	return e.peer.name
}
