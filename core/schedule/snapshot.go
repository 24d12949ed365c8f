package schedule

import (
	"time"

	"troupe/core/backend"
	"troupe/core/hbm"
)

// Snapshot is everything that a plan depends on. The same snapshot gives the same plan.
type Snapshot struct {
	At       time.Time
	Devices  []Device
	Models   []Model
	Replicas []Placed
	Reserved []string // names that no new replica gets: of replicas that may come back
	Away     []Away
	Memory   Memory // of the plan before
	Options  Options
}

// Away is a node that has left or was lost, and is not back.
type Away struct {
	Node  string
	Since time.Time
}

// Device is a device of the pool.
type Device struct {
	Name        string // "node-a/gpu-0", unique
	Node        string
	Island      string       // devices of a node with the same island have direct links; may be empty
	Engine      backend.Kind // of the engines that it runs
	Memory      int64        // bytes
	Other       int64        // bytes of replicas that are not in the snapshot
	KVReserve   float64
	Draining    bool // the device or its node drains: replicas leave when substitutes serve
	Quarantined bool // likewise, since it failed a test
	Failed      bool // it is lost: its replicas do not count
	// Fault is why it is quarantined or has failed; empty: unknown.
	Fault string
	// Silent devices do not answer. They get no new replicas, and those that are there stay.
	Silent      bool
	SilentSince time.Time // zero: unknown
	Leaving     bool      // its node leaves, and may come back: like one that drains
	// Returning has the models whose replicas may have come back with the node, which has not listed them yet. They
	// get no other replica on the device meanwhile.
	Returning   []string
	Weights     []string // models whose weights are on the device
	Unused      int64    // bytes of the weights on the device that no replica uses; they can be evicted
	Images      []string // models whose weights are in the host memory of its node
	DiskImages  []string // models with an image of the weights on a disk of its node
	Folders     []string // models whose files are on its node
	Utilization float64  // share of its time and roofline in use, or at most that; negative: unknown
}

// Priority is the priority of a deployment.
type Priority uint8

// Priorities. A lower value is more important.
const (
	Critical Priority = iota // has devices of its own, and is never preempted
	High                     // preempted only for critical models
	Standard                 // shares devices
	Batch                    // uses what is left; no SLO
)

// String returns the name of the priority.
func (p Priority) String() string { return [...]string{"critical", "high", "standard", "batch"}[p] }

// SLO has the P99 times within which requests are to be served. A time of 0 is not required.
type SLO struct {
	TTFT time.Duration // until the first token
	TPOT time.Duration // per further token
}

// DefaultSLO returns the SLO of models of a priority that have none of their own. There is none for TPOT.
func DefaultSLO(p Priority) SLO {
	return SLO{TTFT: [...]time.Duration{200 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 0}[p]}
}

// Model is a deployment, as a plan sees it.
type Model struct {
	Name     string
	Priority Priority
	SLO      SLO
	Min, Max int // replicas; Max 0: stopped by an operator
	Replicas int // wanted while an operator holds the model, or by the policy "static"
	Engine   backend.Kind
	Revision string   // of its settings and files; when it changes, earlier failures no longer count
	Files    string   // of its weights; replicas with the same files share them on a device; empty: its own
	Sized    bool     // Weights and Need are known; else no replica starts, or leaves for less load
	Group    int      // devices of a replica, which hold equal parts of it; 0 is 1
	Devices  []string // where replicas may start; empty: on any
	// Weights is the part of its weights, and Need the other memory, of a replica on each of its devices,
	// in bytes. Replicas on one device share the weights. Need.Fixed is without them.
	Weights int64
	Need    hbm.Need
	Loads   LoadTimes
	// IdleAfter is how long a model with Min 0 keeps its replicas without a request; 0: Options.IdleAfter.
	IdleAfter time.Duration
	// WakeWait is how long requests for the model may wait for a device that another model uses or is likely to
	// use again; they are gathered meanwhile. Negative: without a limit.
	WakeWait time.Duration
	Pinned   bool      // its replicas stay where they are
	HeldBy   string    // the operator whose command holds the model at Replicas; empty: none
	HeldTill time.Time // zero: until it is released
	Demand   Demand
}

// LoadTimes has the expected times until a new replica serves, by the place of its weights; 0: unknown.
type LoadTimes struct {
	Device, Host, Disk time.Duration
}

// Demand is what requests ask of a model, and how they are served. Unknown figures are negative.
type Demand struct {
	Rate        float64       // arrivals per second over Options.Window
	Recent      float64       // arrivals per second over the last Options.RecentWindow
	TTFT, TPOT  time.Duration // P99
	Running     int           // sequences
	Waiting     int           // sequences that wait at replicas
	Pending     int           // sequences that wait for a replica
	Oldest      time.Time     // arrival of the oldest pending one
	Last        time.Time     // of the last request; zero: unknown
	Places      int           // sequences that a replica may run at once; 0: unknown
	KV          float64       // share of the KV blocks in use
	Utilization float64       // of the devices of a replica by its steps, mean of the replicas
	// Capacities are the requests per second that 1, 2 and so on replicas serve within the SLO, by their profile. More
	// replicas serve in proportion to the last one. None: unknown.
	Capacities []float64
}

// sequences returns the number of sequences that are not finished.
func (d Demand) sequences() int { return d.Running + d.Waiting + d.Pending }

// idle reports whether no request has come lately.
func (d Demand) idle(now time.Time, o Options) bool {
	return d.sequences() == 0 && d.Rate <= 0 && (d.Last.IsZero() || now.Sub(d.Last) >= o.Residence)
}

// Progress is how far a replica has come.
type Progress uint8

// Progresses.
const (
	Assigned Progress = iota // not begun
	Starting                 // loading
	Up                       // serving
	Leaving                  // finishing its sequences or freeing its memory
)

// String returns the name of the progress.
func (p Progress) String() string {
	return [...]string{"assigned", "starting", "serving", "leaving"}[p]
}

// Placed is a replica that has devices or is assigned to them. One that is withdrawn is Leaving until it has freed its
// memory.
type Placed struct {
	Name     string
	Model    string
	Devices  []string
	Progress Progress
	Since    time.Time // of the progress
	After    []string  // replicas whose memory it needs, as assigned
	Failure  string    // why its start failed, or why it ended; empty: neither
	Served   bool      // with a failure: it had begun to serve
	Outdated bool      // it has other files or settings than the deployment wants
	Streams  int
	// Files identifies the files that an outdated replica has loaded. Weights are the bytes of its weights on each
	// device, and Need is its other memory there. Empty or zero: those of the model.
	Files   string
	Weights int64
	Need    hbm.Need
}
