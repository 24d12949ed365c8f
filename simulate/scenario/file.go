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
	Loads       Loads           `yaml:"loads"`
	Faults      []Fault         `yaml:"faults"`
	Commands    []Command       `yaml:"commands"`

	Policies Policies `yaml:"policies"`

	Links any `yaml:"links"`

	path   string
	source []byte
}

// Node is a node with its devices, which are called gpu-0, gpu-1 and so on.
type Node struct {
	Name      string   `yaml:"name"`
	Devices   []Device `yaml:"devices"`
	HostCache string   `yaml:"host_cache"` // for images of weights and adapters; empty: none
	// WeightsDisk is the size of images of weights on the disk; empty: none are kept.
	WeightsDisk string `yaml:"weights_disk"`
	// DiskRead and DiskWrite are bandwidths per second. Without them, copies of adapters and KV blocks take no time.
	DiskRead  string `yaml:"disk_read"`
	DiskWrite string `yaml:"disk_write"`
	Tiers     Tiers  `yaml:"tiers"`
}

// Loads are the costs of loads of weights and of starts of replicas. Those that are missing are those of the
// device's profile, or the defaults of package simulate. Bandwidths are in bytes per second, such as 2GB.
type Loads struct {
	Disk    string `yaml:"disk"`    // of a node, from the folders of models; empty: its disk_read
	Image   string `yaml:"image"`   // of a node, from and to images of weights on its disk; empty: its disk
	Network string `yaml:"network"` // of a node
	Link    string `yaml:"link"`    // of a device, from and to host memory; empty: its link
	Peer    string `yaml:"peer"`    // of a device, from and to others of the node
	Open    *Time  `yaml:"open"`    // of KV memory and an engine
	Capture *Time  `yaml:"capture"` // of the graphs
	Free    *Time  `yaml:"free"`    // of the memory of a replica
}

// Fault is something that fails. It names a node, a device, a replica, a network, a disk or a link.
type Fault struct {
	At      Time     `yaml:"at"`
	For     Time     `yaml:"for"` // until it is there again; 0: never
	Node    string   `yaml:"node"`
	Device  string   `yaml:"device"` // "node/gpu-0"
	Replica string   `yaml:"replica"`
	Hang    Time     `yaml:"hang"`    // a step of the replica takes so much longer; 0: the replica crashes
	Network string   `yaml:"network"` // of this node
	Between []string `yaml:"between"` // the network between two nodes
	Disk    string   `yaml:"disk"`    // of this node
	Link    string   `yaml:"link"`    // of this device to host memory, "node/gpu-0"
	Slow    float64  `yaml:"slow"`    // times slower is the network, disk or link; 0: the network is cut
}

// Command is what an operator commands. It has one of the commands with the name that it is for.
type Command struct {
	At       Time   `yaml:"at"`
	Scale    string `yaml:"scale"`    // a deployment
	Replicas *int   `yaml:"replicas"` // with Scale
	Park     string `yaml:"park"`     // a deployment
	Standby  string `yaml:"standby"`  // likewise
	Activate string `yaml:"activate"` // likewise
	Preempt  string `yaml:"preempt"`  // a replica
	Deadline Time   `yaml:"deadline"` // with Preempt, until which its sequences may go on; 0: 30s
	Drain    string `yaml:"drain"`    // a node
	Undrain  string `yaml:"undrain"`  // likewise
}

// Device stands for a number of equal devices.
type Device struct {
	Kind   string `yaml:"kind"`   // a profile that ships, a file with one, or any name
	Count  int    `yaml:"count"`  // 0: one
	Memory string `yaml:"memory"` // empty: that of the profile
	// Link is the bandwidth from host memory and to it, per second. Without it, it is that of the profile; without
	// either, copies of adapters and KV blocks take no time but the Latency.
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

// Policies are the figures of plans; see schedule.Options. Those that are missing have its defaults.
type Policies struct {
	Policy         string  `yaml:"policy"`
	Placement      string  `yaml:"placement"`
	SpikeFactor    float64 `yaml:"spike_factor"`
	SpikeArrivals  float64 `yaml:"spike_arrivals"`
	Headroom       float64 `yaml:"headroom"`
	DownHeadroom   float64 `yaml:"down_headroom"`
	KVFull         float64 `yaml:"kv_full"`
	UpAt           float64 `yaml:"up_at"`
	DownAt         float64 `yaml:"down_at"`
	QueueAt        float64 `yaml:"queue_at"`
	ShareBelow     float64 `yaml:"share_below"`
	FillBelow      float64 `yaml:"fill_below"`
	ParkBelow      float64 `yaml:"park_below"`
	DownAfter      Time    `yaml:"down_after"`
	IdleAfter      Time    `yaml:"idle_after"`
	Residence      Time    `yaml:"residence"`
	ResidenceLoads float64 `yaml:"residence_loads"`
	StartTimeout   Time    `yaml:"start_timeout"`
}

// Deployment is a deployment, with the keys of a node's configuration.
type Deployment struct {
	Name         string   `yaml:"name"`
	Model        string   `yaml:"model"` // empty: that of the same name
	Replicas     *int     `yaml:"replicas"`
	MinReplicas  *int     `yaml:"min_replicas"`
	MaxReplicas  *int     `yaml:"max_replicas"`
	IdleAfter    Time     `yaml:"idle_after"`
	Level        string   `yaml:"level"`     // active, standby or parked
	WakeWait     *Time    `yaml:"wake_wait"` // for a device that another model uses; negative: as long as they want
	Wait         bool     `yaml:"wait"`      // its requests wait even if no device has room
	Devices      []string `yaml:"devices"`   // where replicas may be, as "node/gpu-0"; empty: anywhere
	Priority     string   `yaml:"priority"`
	MaxSequences *int     `yaml:"max_sequences"`
	MaxWaiting   *int     `yaml:"max_waiting"`
	StepTokens   *int     `yaml:"step_tokens"`
	BlockTokens  *int     `yaml:"block_tokens"`
	KVBlocks     *int     `yaml:"kv_blocks"`
	// TensorParallel is the number of devices of a replica, each with an equal part of it. Without it, it is 1.
	TensorParallel *int      `yaml:"tensor_parallel"`
	SLO            SLO       `yaml:"slo"`
	Adapters       *Adapters `yaml:"adapters"` // nil: it takes none
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
	Period    Time    `yaml:"period"`
	Depth     float64 `yaml:"depth"`
	Peak      Time    `yaml:"peak"`
	Sharpness int     `yaml:"sharpness"`
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
