package simulate

import (
	"io"
	"time"

	"troupe/core/batch"
	"troupe/core/cost"
	"troupe/core/deployment"
	"troupe/core/planner"
	"troupe/core/schedule"
)

// StepTimer predicts how long a step takes.
type StepTimer interface {
	Time(cost.Step) time.Duration
}

// Config is what a simulation runs. Check returns what is wrong with it.
type Config struct {
	Name        string // of the scenario
	Seed        uint64 // of the requests, for the record
	Duration    time.Duration
	KVReserve   float64 // share of each device's memory that is kept for KV blocks
	Nodes       []Node  // what the devices of a node share; one without an entry has the defaults
	Devices     []Device
	Policies    schedule.Options // of the planner
	Deployments []Deployment
	Faults      []Fault   // in the order of their times
	Commands    []Command // likewise
	// StepByStep runs each step by itself instead of several steady ones at once. The results are the same.
	StepByStep bool
	Origin     Origin                   // for the record
	Record     io.Writer                // receives each decision as a line of JSON; nil: none is recorded
	Buckets    int                      // of Result.Series, which has up to twice as many; 0: there is none
	Progress   func(done time.Duration) // called now and then with the simulated time; nil: it is not
	// Watch is called with each effect of the planner, from the beginning of the simulation on; nil: it is not.
	Watch func(at time.Duration, e planner.Effect)
	// Unplaced lets a run begin although replicas have no place.
	Unplaced bool
}

// Device is a device of a node.
type Device struct {
	Node, Name string
	Kind       string
	Memory     int64 // bytes
	Costs      DeviceCosts
	Up, Down   Link // from and to host memory, for adapters and KV blocks
}

// Deployment is a model and its replicas.
type Deployment struct {
	Name string
	// Weights names the files of the model. Deployments of the same files share them on a device. Empty: the
	// deployment has files of its own.
	Weights       string
	WeightBytes   int64 // on each device of a replica
	KVTokenBytes  int64 // likewise
	Layers        int   // of the model, for restores in parts; 0 counts as 1
	ContextTokens int
	Group         int                  // devices of a replica; 0 counts as 1
	Times         map[string]StepTimer // of its steps, by kind of device
	Replicas      int                  // at the beginning
	MinReplicas   int                  // with MaxReplicas
	MaxReplicas   int                  // 0: Replicas never changes
	IdleAfter     time.Duration        // without a request, until it has no replicas; 0: that of Policies, if set
	Level         deployment.Level     // of the replicas, until a request wakes them
	WakeWait      time.Duration        // how long requests may wait for a device that another model uses
	Wait          bool                 // requests wait even if no device has room
	Devices       []string             // where replicas may be, as "node/device"; empty: anywhere
	// Places are the replicas that are there at the beginning. The planner decides about them from then on.
	// Empty: it places them.
	Places       []Place
	Rate         float64 // requests per second in the minute before the beginning, as the planner knows them
	Class        batch.Class
	Priority     schedule.Priority
	MaxSequences int
	MaxWaiting   int
	StepTokens   int
	BlockTokens  int
	KVBlocks     int // 0: as many as fit
	SLO          SLO
	Adapters     *Adapters // nil: requests with an adapter are refused
}

// Place is a replica on a device.
type Place struct{ Replica, Device string }

// SLO has the times within which a request is to be served. A time of 0 is not required.
type SLO struct {
	TTFT time.Duration // until the first token
	TPOT time.Duration // mean of each further one
}

// met reports whether a request was served within the times.
func (s SLO) met(ttft, tpot time.Duration) bool {
	return (s.TTFT == 0 || ttft <= s.TTFT) && (s.TPOT == 0 || tpot <= s.TPOT)
}

// Fault is something that fails at a time. One of Node, Device, Replica, Network, Between, Disk and Link is set.
type Fault struct {
	At      time.Duration
	For     time.Duration // until it is there again; 0: never
	Node    string        // is lost with its memory; its disk is kept
	Device  string        // "node/device", is lost with its memory
	Replica string        // exits, and is started again; with Hangs, a step of it
	Hangs   bool          // a step of the replica takes For longer
	Network string        // of this node
	Between [2]string     // the network between these nodes
	Disk    string        // of this node, with Slow
	Link    string        // of this "node/device" to host memory, with Slow
	Slow    float64       // factor by which a network, disk or link is slower; 0: the network is cut
}
