package query

import "strconv"

// IDs of actors that are addressed by name.
const (
	Node        = "node"
	Devices     = Node + "/devices"
	Replicas    = Node + "/replicas"
	Deployments = Node + "/deployments"
	Gateway     = Node + "/gateway"
	Router      = Node + "/router"
	Tiers       = Node + "/tiers"
	Usage       = Node + "/usage"
	HostCache   = Node + "/hostcache"
	Planner     = Node + "/planner"
)

// GPUName returns the name of the GPU with an index.
func GPUName(i int) string { return "gpu-" + strconv.Itoa(i) }

// GPU returns the ID of the actor of a GPU.
func GPU(name string) string { return Devices + "/" + name }

// Tier returns the ID of the actor of a KV tier.
func Tier(name string) string { return Tiers + "/" + name }
