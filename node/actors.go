package node

import (
	"context"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/deployment"
	"troupe/actors/model/replica"
	"troupe/actors/model/replicaset"
	"troupe/actors/model/router"
	"troupe/actors/model/session"
	"troupe/actors/planner"
	"troupe/actors/supervise"
	"troupe/cluster/service"
	"troupe/control"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/gateway"
	"troupe/messages"
)

// IDs of actors that are addressed by name.
const (
	nodeID        = "node"
	devicesID     = nodeID + "/devices"
	replicasID    = nodeID + "/replicas"
	deploymentsID = nodeID + "/deployments"
	gatewayID     = nodeID + "/gateway"
	routerID      = nodeID + "/router"
)

func (n *Node) pid(id string) *actor.PID { return actor.NewPID(n.system.Address(), id) }

// instrument registers the actors of the given props and adds the configured middleware.
func (n *Node) instrument(kind string, props *actor.Props) *actor.Props {
	return n.instrumentOf(kind, "", props)
}

// instrumentOf is instrument for actors that serve one object, such as the adapter in a slot.
func (n *Node) instrumentOf(kind, of string, props *actor.Props) *actor.Props {
	if n.cfg.Middleware != nil {
		props = props.Configure(actor.WithReceiverMiddleware(n.cfg.Middleware(kind)...))
	}
	return n.registry.InstrumentOf(kind, of, props.Configure(actor.WithDispatcher(n.dispatcher)))
}

func (n *Node) strategy() actor.SupervisorStrategy { return supervise.Strategy(n.onFailure) }

func (n *Node) nodeProps() *actor.Props {
	children := []supervise.Child{
		{Name: "devices", Props: n.instrument("group", n.devicesProps())},
		{Name: "replicas", Props: n.instrument("replicas", n.replicasProps())},
		{Name: "router", Props: n.instrument("router", n.routerProps())},
		{Name: "deployments", Props: n.instrument("deployments", n.deploymentsProps())},
		{Name: "planner", Props: n.instrument("planner", n.plannerProps())},
		{Name: "gateway", Props: n.instrument("gateway", n.gatewayProps())},
		{Name: "usage", Props: n.instrument("usage", n.usageProps())},
		{Name: "control", Props: n.instrument("control", n.controlProps())},
	}
	if len(n.tiers) > 0 || !n.cfg.Tiers.LocalOnly {
		children = slices.Insert(children, 1,
			supervise.Child{Name: "tiers", Props: n.instrument("group", n.tiersProps())})
	}
	return n.instrument("node", supervise.Group(supervise.GroupConfig{Children: children, Strategy: n.strategy(),
		Log: n.cfg.Log}))
}

func (n *Node) replicasProps() *actor.Props {
	return replicaset.Props(replicaset.Config{Node: n.cfg.Name, Fence: n.fence, Strategy: n.strategy(),
		GPUs: n.gpuNames(), Log: n.cfg.Log,
		GPU: func(gpu string) *actor.PID { return n.pid(devicesID + "/" + gpu) },
		Replica: func(spec *messages.ReplicaSpec, deployment *actor.PID) *actor.Props {
			device := devicesID + "/" + spec.GetGpu()
			return n.instrument("replica", replica.Props(replica.Config{
				Spec: spec, GPU: n.pid(device), HBM: n.pid(device + "/hbm"), Deployment: deployment,
				Router: n.pid(routerID), Strategy: n.strategy(),
				Log: n.cfg.Log.With().Str("model", spec.GetModel()).Logger(),
				Engine: func(lease string, gate func(uint64) (engine.Gate, error)) *actor.Props {
					return n.engineProps(spec.GetGpu(), lease, gate)
				},
				OpenBlocks:  func(lease string) (replica.Blocks, error) { return n.blocks(spec.GetGpu(), lease) },
				Bulk:        n.bulk,
				CheckFolder: func(revision string) string { return n.folderFault(spec, revision) },
				Tiers:       n.kvTiers(),
				Pins:        func() (uint64, []*messages.PinnedPrefix) { return n.modelPins(spec.GetModel()) },
				Adapters:    func(lease string) *actor.Props { return n.adaptersProps(spec.GetGpu(), lease) },
			}))
		}})
}

func (n *Node) engineProps(gpu, lease string, gate func(uint64) (engine.Gate, error)) *actor.Props {
	return n.instrument("engine", replica.EngineProps(replica.EngineConfig{
		GPU: n.pid(devicesID + "/" + gpu), Lease: lease, Gate: gate,
		Open: func() (engine.Engine, error) {
			h, err := n.residencyOf(gpu)
			if err != nil {
				return nil, err
			}
			return h.Open(lease)
		},
		Adapter: func(key string) (*engine.Adapter, error) { return n.adapterOnDevice(gpu, lease, key) },
	}))
}

// blocks opens the KV blocks of a lease.
func (n *Node) blocks(gpu, lease string) (replica.Blocks, error) {
	h, err := n.residencyOf(gpu)
	if err != nil {
		return nil, err
	}
	return h.OpenBlocks(lease)
}

func (n *Node) residencyOf(gpu string) (*residency.Store, error) {
	for i, h := range n.residency {
		if gpuName(i) == gpu {
			return h, nil
		}
	}
	return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND, "no "+gpu+" on this node")
}

func (n *Node) routerProps() *actor.Props {
	return router.Props(router.Config{
		Node: n.cfg.Name, Members: n.currentMembers,
		Peer:     func(m *messages.Member) *actor.PID { return actor.NewPID(m.GetAddress(), routerID) },
		Replicas: n.pid(replicasID), Deployments: n.pid(deploymentsID), Sessions: n.calls.Open, Tiers: n.tierPIDs(),
		Adapters: n.catalogue.Reconcile, Cache: &n.stored, OnSynced: sync.OnceFunc(func() { close(n.routesKnown) }),
	})
}

func (n *Node) deploymentsProps() *actor.Props {
	return deployment.GroupProps(deployment.GroupConfig{
		Node: n.cfg.Name, Store: n.store, Leases: leases{n.members}, Members: n.currentMembers, Router: n.pid(routerID),
		Strategy: n.strategy(), Log: n.cfg.Log,
		Deployment: func(name string, term uint64) *actor.Props {
			return n.instrument("deployment", deployment.Props(deployment.Config{
				Name: name, Node: n.cfg.Name, Term: term, Members: n.currentMembers, Router: n.pid(routerID),
				Replicas: func(m *messages.Member) *actor.PID { return actor.NewPID(m.GetAddress(), replicasID) },
				GPU: func(m *messages.Member, gpu string) *actor.PID {
					return actor.NewPID(m.GetAddress(), devicesID+"/"+gpu)
				},
				Inspect: n.modelSizes, Record: n.recordDigests, Publish: n.events.Publish, Log: n.cfg.Log,
			}))
		}})
}

func (n *Node) plannerProps() *actor.Props {
	lease := leases{n.members}
	return planner.Props(planner.Config{
		Router: n.pid(routerID), Scale: n.scaleAtRevision, Log: n.cfg.Log,
		IsLeader: func() bool { holder, _ := lease.Holder(planner.Role); return holder == n.cfg.Name },
		Acquire:  func(ctx context.Context) error { _, err := lease.Acquire(ctx, planner.Role); return err },
	})
}

func (n *Node) gatewayProps() *actor.Props {
	return gateway.Props(gateway.ActorConfig{Calls: n.calls, Strategy: n.strategy(), Log: n.cfg.Log,
		Session: func(call *gateway.Call) *actor.Props {
			return n.instrument("session", session.Props(session.Config{
				RequestID: call.ID, Sequence: call.Sequence, Client: call, Router: n.pid(routerID), Log: n.cfg.Log,
			}))
		}})
}

func (n *Node) controlProps() *actor.Props {
	return control.Props(control.Config{
		Conn: n.conn, Backend: n, Version: n.cfg.Version, Node: n.cfg.Name, Audit: n.audit, Log: n.cfg.Log,
		Guard: n.guard, TrustAccounts: n.cfg.TrustAccounts, Synced: n.informed,
		OnServing: sync.OnceFunc(func() { close(n.serving) }),
		Leaving:   n.leaving,
		Extra: []control.Endpoint{{
			Name: "infer", Subject: gateway.InferSubject, Handler: func(r *service.Request) { n.gateway.Infer(r) },
			Description: `generate text from a prompt or an OpenAI request; --wait-for-empty`,
		}},
	})
}
