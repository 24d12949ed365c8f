package scenario

import "troupe/core/cost"

// File is a scenario.
type File struct {
	Name        string          `yaml:"name"`
	Seed        uint64          `yaml:"seed"`
	Duration    Time            `yaml:"duration"`
	KVReserve   *float64        `yaml:"kv_reserve"`
	Efficiency  cost.Efficiency `yaml:"efficiency"`
	Nodes       []Node          `yaml:"nodes"`
	Models      []Model         `yaml:"models"`
	Deployments []Deployment    `yaml:"deployments"`
	Workload    []Load          `yaml:"workload"`

	Faults   any `yaml:"faults"`
	Links    any `yaml:"links"`
	Policies any `yaml:"policies"`

	path   string
	source []byte
}

// Node is a node with its devices, which are called gpu-0, gpu-1 and so on.
type Node struct {
	Name    string   `yaml:"name"`
	Devices []Device `yaml:"devices"`
	Paths   `yaml:",inline"`
}

// Device stands for a number of equal devices.
type Device struct {
	Kind   string `yaml:"kind"`   // a profile that ships, a file with one, or any name
	Count  int    `yaml:"count"`  // 0: one
	Memory string `yaml:"memory"` // empty: that of the profile
	// Link is the bandwidth from host memory and to it, per second. Without it, it is that of the profile; without
	// either, copies take no time but the Latency.
	Link    string `yaml:"link"`
	Latency Time   `yaml:"latency"`
}

// Model is a model by its folder, or by its facts. With both, facts that are not 0 are used instead of
// those of the folder.
type Model struct {
	Name   string      `yaml:"name"`
	Folder string      `yaml:"folder"`
	Facts  *cost.Model `yaml:"facts"`
	// Steps are the costs of steps by kind of device. Without them they are those of the device's
	// profile, or predicted from its facts.
	Steps map[string]cost.Steps `yaml:"steps"`
}

// Deployment is a deployment, with the keys of a node's configuration.
type Deployment struct {
	Name         string    `yaml:"name"`
	Model        string    `yaml:"model"` // empty: that of the same name
	Replicas     *int      `yaml:"replicas"`
	Devices      []string  `yaml:"devices"` // of the replicas, as "node/gpu-0"; empty: chosen as on a cluster
	Priority     string    `yaml:"priority"`
	MaxSequences *int      `yaml:"max_sequences"`
	MaxWaiting   *int      `yaml:"max_waiting"`
	StepTokens   *int      `yaml:"step_tokens"`
	BlockTokens  *int      `yaml:"block_tokens"`
	KVBlocks     *int      `yaml:"kv_blocks"`
	SLO          SLO       `yaml:"slo"`
	Adapters     *Adapters `yaml:"adapters"` // nil: it takes none
}

// SLO has the times within which requests are to be served.
type SLO struct {
	TTFT Time `yaml:"ttft"`
	TPOT Time `yaml:"tpot"`
}

// Load is a part of the workload: a trace, a preset of package workload, or generated requests.
type Load struct {
	Deployment string  `yaml:"deployment"` // of all its requests; empty: that of the trace
	Trace      string  `yaml:"trace"`
	Preset     string  `yaml:"preset"`
	Speed      float64 `yaml:"speed"` // factor of the rate of a trace or preset; 0: 1

	Rate         float64       `yaml:"rate"`
	CV           float64       `yaml:"cv"`
	Diurnal      Diurnal       `yaml:"diurnal"`
	Spikes       []Spike       `yaml:"spikes"`
	Prompt       Lengths       `yaml:"prompt"`
	Output       Lengths       `yaml:"output"`
	Conversation *Conversation `yaml:"conversation"`
	Adapters     Names         `yaml:"adapters"` // without any, the requests have none
}

// Diurnal is a rate that changes over the day.
type Diurnal struct {
	Period Time    `yaml:"period"`
	Depth  float64 `yaml:"depth"`
	Peak   Time    `yaml:"peak"`
}

// Spike is a time with a higher rate.
type Spike struct {
	At     Time    `yaml:"at"`
	Length Time    `yaml:"length"`
	Factor float64 `yaml:"factor"`
}

// Lengths is a distribution of tokens.
type Lengths struct {
	Fixed       int     `yaml:"fixed"`
	Exponential float64 `yaml:"exponential"`
	Median      float64 `yaml:"median"` // of a lognormal distribution
	Sigma       float64 `yaml:"sigma"`  // likewise
	Max         int     `yaml:"max"`
}

// Conversation are requests that continue earlier ones.
type Conversation struct {
	Turns  float64 `yaml:"turns"`
	System int     `yaml:"system"`
	Open   int     `yaml:"open"`
	Block  int     `yaml:"block"`
}
