package hierarchy

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/hostcache"
	"troupe/engine/residency"
	"troupe/node/gpus"
	"troupe/node/query"
)

// HostCache is the cache of weights and adapters in a node's host memory, and of the images of weights on
// a local disk.
type HostCache struct {
	Images     *residency.HostCache
	Budget     int64 // bytes; 0: there are no images in host memory
	Disk       *residency.DiskImages
	DiskBudget int64           // bytes
	Plane      hostcache.Plane // between nodes
	GPUs       *gpus.GPUs
	// AdapterDeleted reports whether an adapter of a deployment is certainly no longer registered.
	AdapterDeleted func(model, adapter string) bool
	Publish        func(kind, subject, detail string)
}

// pid returns the address of its actor; nil if there are no images, and the actor only sends weights of
// devices.
func (h HostCache) pid(b *Base) *actor.PID {
	if h.Budget == 0 && h.Disk == nil {
		return nil
	}
	return b.pid(query.HostCache)
}

// adapters returns the address of its actor; nil if there is no host memory for adapters.
func (h HostCache) adapters(b *Base) *actor.PID {
	if h.Budget == 0 {
		return nil
	}
	return b.pid(query.HostCache)
}

// Props returns the props of its actor.
func (h HostCache) Props(b *Base) *actor.Props {
	cfg := hostcache.Config{
		Images: h.Images, Budget: h.Budget, Deployments: b.pid(query.Deployments), Publish: h.Publish, Log: b.Log,
		Plane: h.Plane, Devices: weightsOf(h.GPUs, b), AdapterDeleted: h.AdapterDeleted,
	}
	if h.Disk != nil {
		cfg.Disk, cfg.DiskBudget = h.Disk, h.DiskBudget
	}
	return b.Instrument("hostcache", hostcache.Props(cfg))
}
