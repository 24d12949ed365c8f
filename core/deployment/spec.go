package deployment

import (
	"troupe/core/backend"
	"troupe/core/schedule"
)

// Ref identifies an actor; the zero Ref is no actor.
type Ref struct{ Address, ID string }

// Location is a GPU of a node.
type Location struct{ Node, GPU string }

// String returns the name of the location.
func (l Location) String() string { return l.Node + "/" + l.GPU }

// Settings are the settings that a deployment and its replicas share.
type Settings struct {
	Engine         backend.Spec
	Path           string // the model's folder
	BlockTokens    uint32
	KVBlocks       uint32
	MaxSequences   uint32
	MaxWaiting     uint32
	StepTokens     uint32
	Priority       int32
	AdapterPages   uint32
	MaxAdapters    uint32
	MaxAdapterRank uint32
}

// Spec is the desired state of a deployment.
type Spec struct {
	Settings
	Replicas int
	Rest     schedule.Rest     // whether it wants replicas, and if not, what starts them
	Sleeps   bool              // its minimum is 0 replicas, so that it may be asleep
	Revision schedule.Revision // of the model's files
	Drop     bool              // replicas that stop because fewer are wanted free their weights
	Level    Level             // wanted level of the replicas
	Levels   map[string]Level  // wanted levels of single replicas, by name
	// Preemptions have the replicas that an operator has taken away. One replica fewer is wanted for
	// each.
	Preemptions []Preemption
	Planned     bool                  // by the planner; else the replicas that are there stay
	Assigned    map[string]Assignment // by replica
	Withdrawn   []string              // replicas that leave, as far as they are there
}

// ReplicaSpec is the desired state of one replica.
type ReplicaSpec struct {
	Settings
	Name     string
	Model    string // the deployment
	At       Location
	Revision schedule.Revision
	Standby  bool // it starts for level standby
}

// replicaSpec returns the current spec of a replica, without a placement.
func (d *Deployment) replicaSpec(name string) ReplicaSpec {
	return ReplicaSpec{
		Settings: d.spec.Settings, Name: name, Model: d.name, Revision: d.spec.Revision, Standby: d.wantsStandby(name),
	}
}

// current reports whether a replica matches the spec. It ignores the priority, whose change needs
// no restart.
func (d *Deployment) current(r *replica) bool {
	want, is := d.spec.Settings, r.spec.Settings
	want.Priority = is.Priority
	return want == is && r.spec.Model == d.name && d.spec.Revision.Same(r.revision())
}
