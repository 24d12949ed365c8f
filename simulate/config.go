package simulate

import (
	"io"
	"time"

	"troupe/core/batch"
	"troupe/core/cost"
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
	Nodes       []Node  // those that have anything beside their devices
	Devices     []Device
	Deployments []Deployment
	// StepByStep runs each step by itself instead of several steady ones at once. The results are the same.
	StepByStep bool
	Record     io.Writer                // receives each decision as a line of JSON; nil: none is recorded
	Progress   func(done time.Duration) // called now and then with the simulated time; nil: it is not
}

// Device is a device of a node.
type Device struct {
	Node, Name string
	Kind       string
	Memory     int64 // bytes
	Up, Down   Link  // from and to host memory
}

// Deployment is a model and its replicas.
type Deployment struct {
	Name          string
	WeightBytes   int64
	KVTokenBytes  int64
	Layers        int // of the model, for restores in parts; 0 counts as 1
	ContextTokens int
	Times         map[string]StepTimer // of its steps, by kind of device
	Replicas      int
	Devices       []string // of the replicas, as "node/device"; empty: core/schedule chooses them
	Class         batch.Class
	MaxSequences  int
	MaxWaiting    int
	StepTokens    int
	BlockTokens   int
	KVBlocks      int // 0: as many as fit
	SLO           SLO
	Adapters      *Adapters // nil: requests with an adapter are refused
}

// SLO has the times within which a request is to be served. A time of 0 is not required.
type SLO struct {
	TTFT time.Duration // until the first token
	TPOT time.Duration // mean of each further one
}

// met reports whether a request was served within the times.
func (s SLO) met(ttft, tpot time.Duration) bool {
	return (s.TTFT == 0 || ttft <= s.TTFT) && (s.TPOT == 0 || tpot <= s.TPOT)
}
