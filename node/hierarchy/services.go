package hierarchy

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/deployment"
	"troupe/actors/model/router"
	"troupe/actors/model/session"
	"troupe/actors/planner"
	"troupe/cluster/service"
	"troupe/control"
	"troupe/core/backend"
	"troupe/core/cost"
	plan "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/engine"
	"troupe/gateway"
	"troupe/internal/recorder"
	"troupe/messages"
	"troupe/node/query"
)

// Router is the router of a node.
type Router struct {
	Members  func() *messages.MembersChanged
	Sessions func() int // open calls of this node's gateway
	Tiers    Tiers
	Adapters func(model string, held []*messages.AdapterHeld) (tell []proto.Message)
	Cache    *router.DeploymentCache
	OnSynced func() // called when the router knows the replicas of the other nodes
	Recorder *recorder.Recorder
}

// Props returns the props of the router.
func (r Router) Props(b *Base) *actor.Props {
	return router.Props(router.Config{
		Node: b.Node, Members: r.Members,
		Peer:     func(m *messages.Member) *actor.PID { return pidAt(m, query.Router) },
		Leader:   func(m *messages.Member) *actor.PID { return pidAt(m, query.Deployments) },
		Replicas: b.pid(query.Replicas), Deployments: b.pid(query.Deployments), Sessions: r.Sessions,
		Planner: b.pid(query.Planner),
		Tiers:   r.Tiers.pids(b), Adapters: r.Adapters, Cache: r.Cache, OnSynced: r.OnSynced,
		Recorder: r.Recorder,
	})
}

// Deployments are the deployments that this node leads.
type Deployments struct {
	Store   deployment.Store
	Leases  deployment.Leases
	Members func() *messages.MembersChanged
	// Inspect returns the memory needs of a model.
	Inspect func(kind backend.Kind, path string) (engine.ModelInfo, error)
	// Record stores the digests that the first replica of a deployment found.
	Record func(ctx context.Context, name string, deploy uint64, weights, revision string) error
	// Scale stores the number of replicas of a deployment and their level, if the deployment still has
	// the given revision.
	Scale func(ctx context.Context, name string, revision uint64, replicas uint32, level messages.Level,
		why string) error
	// OnWake and OnAwake are called for each wake of a deployment by requests; see deployment.Config.
	OnWake  func(model string)
	OnAwake func(model string, took time.Duration)
	Publish func(kind, subject, detail string)
	// HostCache receives the stored deployments.
	HostCache HostCache
}

// Props returns the props of the group of deployments.
func (d Deployments) Props(b *Base) *actor.Props {
	return deployment.GroupProps(deployment.GroupConfig{
		Node: b.Node, Store: d.Store, Leases: d.Leases, Members: d.Members, Router: b.pid(query.Router),
		HostCache: d.HostCache.pid(b), Strategy: b.Strategy(), Log: b.Log,
		Deployment: func(name string, term uint64) *actor.Props {
			return b.Instrument("deployment", deployment.Props(deployment.Config{
				Name: name, Node: b.Node, Term: term, Members: d.Members, Router: b.pid(query.Router),
				Replicas: func(m *messages.Member) *actor.PID { return pidAt(m, query.Replicas) },
				GPU:      func(m *messages.Member, gpu string) *actor.PID { return pidAt(m, query.GPU(gpu)) },
				Inspect:  d.Inspect, Record: d.Record, Scale: d.Scale, Publish: d.Publish, Log: b.Log,
				OnWake: d.OnWake, OnAwake: d.OnAwake,
			}))
		}})
}

// Planner is the planner of a node.
type Planner struct {
	Leases  deployment.Leases
	Members func() *messages.MembersChanged
	Cache   *router.DeploymentCache
	Pause   func() *messages.PlannerPause // nil: none
	// Assign stores the replicas of a deployment if the deployment still has the given revision.
	Assign  func(ctx context.Context, a planner.Assigned) (revision uint64, err error)
	Publish func(kind, subject, detail string)
	OnPlan  func(r *plan.Record) // nil: nothing
	// AdapterUses and Adapters are those of planner.Adapters.
	AdapterUses func() []*messages.AdapterDemand
	Adapters    func(model string) []*messages.AdapterSpec
	// Costs is that of planner.Config.
	Costs   func(device string, d *messages.DeploymentSpec, weights int64) (cost.Steps, bool)
	Options schedule.Options // zero fields have their defaults
}

// Props returns the props of the planner.
func (p Planner) Props(b *Base) *actor.Props {
	return planner.Props(planner.Config{
		Node: b.Node, Router: b.pid(query.Router), Members: p.Members, Stored: p.Cache.All, Pause: p.Pause,
		Leader:      func() (string, uint64) { return p.Leases.Holder(planner.Role) },
		Acquire:     func(ctx context.Context) error { _, err := p.Leases.Acquire(ctx, planner.Role); return err },
		Planner:     func(m *messages.Member) *actor.PID { return pidAt(m, query.Planner) },
		GPU:         func(m *messages.Member, gpu string) *actor.PID { return pidAt(m, query.GPU(gpu)) },
		HostCache:   func(m *messages.Member) *actor.PID { return pidAt(m, query.HostCache) },
		Deployments: func(m *messages.Member) *actor.PID { return pidAt(m, query.Deployments) },
		Assign:      p.Assign, Publish: p.Publish, OnPlan: p.OnPlan, Options: p.Options,
		Log: b.Log, Costs: p.Costs,
		Adapters: planner.Adapters{Uses: p.AdapterUses, Registered: p.Adapters},
	})
}

// Gateway returns the address of the actor that is the parent of the sessions of calls.
func Gateway(sys *actor.ActorSystem) *actor.PID { return query.Local(sys, query.Gateway) }

// GatewayProps returns the props of the actor that is the parent of the sessions of calls.
func GatewayProps(b *Base, calls *gateway.Calls) *actor.Props {
	return gateway.Props(gateway.ActorConfig{
		Calls: calls, Router: b.pid(query.Router), Strategy: b.Strategy(), Log: b.Log,
		Session: func(call *gateway.Call) *actor.Props {
			return b.Instrument("session", session.Props(session.Config{
				RequestID: call.ID, Sequence: call.Sequence, Client: call, Router: b.pid(query.Router), Log: b.Log,
				Placed: call.Placed,
			}))
		}})
}

// UsageProps returns the props of the actor that reports the usage of this node's clients to the
// other nodes.
func UsageProps(b *Base, shares *gateway.Quotas, members func() *messages.MembersChanged) *actor.Props {
	return gateway.UsageProps(gateway.UsageConfig{
		Node: b.Node, Quotas: shares, Members: members,
		Peer: func(m *messages.Member) *actor.PID { return pidAt(m, query.Usage) },
	})
}

// Infer returns the endpoint for generation requests over NATS.
func Infer(g *gateway.Gateway) control.Endpoint {
	return control.Endpoint{
		Name: "infer", Subject: gateway.InferSubject, Handler: func(r *service.Request) { g.Infer(r) },
		Description: `generate text from a prompt or an OpenAI request; --wait-for-empty`,
	}
}
