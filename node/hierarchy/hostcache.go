package hierarchy

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/hostcache"
	"troupe/engine/residency"
	"troupe/node/query"
)

// HostCache is the cache of weights in a node's host memory, and of their images on a local disk. The
// zero value is none.
type HostCache struct {
	Images     *residency.HostCache
	Budget     int64 // bytes
	Disk       *residency.DiskImages
	DiskBudget int64           // bytes
	Plane      hostcache.Plane // between nodes
	Publish    func(kind, subject, detail string)
}

// pid returns the address of its actor; nil if there is none.
func (h HostCache) pid(b *Base) *actor.PID {
	if h.Images == nil {
		return nil
	}
	return b.pid(query.HostCache)
}

// Props returns the props of its actor.
func (h HostCache) Props(b *Base) *actor.Props {
	cfg := hostcache.Config{
		Images: h.Images, Budget: h.Budget, Deployments: b.pid(query.Deployments), Publish: h.Publish, Log: b.Log,
		Plane: h.Plane,
	}
	if h.Disk != nil {
		cfg.Disk, cfg.DiskBudget = h.Disk, h.DiskBudget
	}
	return b.Instrument("hostcache", hostcache.Props(cfg))
}
