package hierarchy

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/hostcache"
	"troupe/engine/residency"
	"troupe/node/query"
)

// HostCache is the cache of weights in a node's host memory. The zero value is none.
type HostCache struct {
	Images  *residency.HostCache
	Budget  int64 // bytes
	Publish func(kind, subject, detail string)
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
	return b.Instrument("hostcache", hostcache.Props(hostcache.Config{
		Images: h.Images, Budget: h.Budget, Deployments: b.pid(query.Deployments), Publish: h.Publish, Log: b.Log,
	}))
}
