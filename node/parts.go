package node

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/router"
	"troupe/actors/supervise"
	"troupe/cluster/link"
	"troupe/control/catalogue"
	"troupe/gateway"
	"troupe/internal/recorder"
	"troupe/node/backend"
	"troupe/node/hierarchy"
	"troupe/node/membership"
	"troupe/node/stored"
	"troupe/observe/tree"
)

// parts has all parts of a node. The start steps fill them in; each step uses the parts of earlier
// steps.
type parts struct {
	*joined
	signals signals

	registry   *tree.Registry
	system     *actor.ActorSystem
	dispatcher *supervise.Dispatcher
	link       *link.Link
	cache      router.DeploymentCache
	calls      *gateway.Calls
	shares     *gateway.Quotas
	gateway    *gateway.Gateway
	recorder   *recorder.Recorder
	control    *controls
	stopActors func()

	changes   membership.Changes
	unwatch   func()            // ends the subscription to changes of the members
	following *stored.Followers // watches of drained nodes, pins, the secret and canaries
}

// controls are the parts of the control backend.
type controls struct {
	backend.Backend
	status      *backend.Status
	models      *backend.ModelFiles
	deployments *backend.DeploymentControl
	adapters    *backend.AdapterControl
	prefixes    *backend.Prefixes
}

func newParts(cfg Config) *parts {
	return &parts{
		joined:  &joined{local: newLocal(cfg), catalogue: catalogue.New()},
		signals: newSignals(), calls: gateway.NewCalls(), shares: gateway.NewQuotas(0, cfg.Runtime),
	}
}

// base returns the Base of all actors.
func (p *parts) base() *hierarchy.Base {
	return &hierarchy.Base{
		Node: p.cfg.Name, System: p.system, Dispatcher: p.dispatcher, Registry: p.registry,
		Middleware: p.cfg.Middleware, Log: p.cfg.Log,
	}
}
