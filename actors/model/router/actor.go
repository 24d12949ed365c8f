package router

import (
	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	core "troupe/core/router"
	"troupe/internal/recorder"
	"troupe/messages"
)

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Node string // name of this node
	// Members returns the current members of the cluster. Changes arrive as MembersChanged.
	Members     func() *messages.MembersChanged
	Peer        func(m *messages.Member) *actor.PID // returns the router of a member
	Leader      func(m *messages.Member) *actor.PID // returns the deployments group of a member
	Replicas    *actor.PID                          // the replicas group of this node
	Deployments *actor.PID                          // the deployments group of this node
	Planner     *actor.PID                          // planner of this node; nil: none
	Tiers       []*actor.PID                        // KV tiers of this node
	Sessions    func() int                          // returns the number of open calls at this node's gateway
	Cache       *DeploymentCache                    // nil: a private one
	// OnSynced is called once the router knows everything that the other routers knew when it
	// started: the stored deployments and the replicas of every other node. It may be nil.
	OnSynced func()
	// Adapters returns the messages to send to a replica of a model that reports these adapters. If
	// Adapters is nil, no messages are sent.
	Adapters func(model string, held []*messages.AdapterHeld) []proto.Message
	Recorder *recorder.Recorder // records decisions; nil: none is recorded
}

// Props returns the props of a router.
func Props(cfg Config) *actor.Props {
	if cfg.Cache == nil {
		cfg.Cache = new(DeploymentCache)
	}
	if cfg.OnSynced == nil {
		cfg.OnSynced = func() {}
	}
	var last uint64
	return supervise.Props(func() actor.Actor { return &router{Config: cfg, lastIncarnation: &last} })
}

// router is the actor. Its machine makes the decisions.
type router struct {
	Config
	incarnation     uint64
	lastIncarnation *uint64 // shared by all incarnations

	machine *core.Machine
	reports reports
	delta   *messages.RoutesAnnounced // the next announcement
	views   views
}

// flush is a message to self.
type flush struct{ incarnation uint64 }

func (r *router) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		r.onStarted(ctx)
	case *flush:
		r.onFlush(ctx, msg)
	case *messages.RouteSequence:
		r.onRouteSequence(ctx, msg)
	case *messages.CancelRoute:
		r.onCancelRoute(ctx, msg)
	case *messages.SequenceMoved:
		r.onMoved(ctx, msg)
	case *messages.ReplicaAnnounced:
		r.onReplicaAnnounced(ctx, msg)
	case *messages.DemandReported:
		r.perform(ctx, r.machine.DemandReported())
	case *messages.RoutesAnnounced:
		r.onRoutesAnnounced(ctx, msg)
	case *messages.GetRoutes:
		ctx.Respond(r.snapshot(ctx))
	case *messages.MembersChanged:
		r.onMembers(ctx, msg)
	case *actor.Terminated:
		r.onTerminated(ctx, msg)
	case *messages.ListReplicasResult:
		r.onReplicaList(ctx, msg)
	case *messages.RouteDeployment:
		r.onRouteDeployment(ctx, msg)
	case *messages.ApplyDeployment:
		r.onApply(ctx, msg)
	case *messages.RemoveDeployment:
		r.onRemove(ctx, msg)
	case *messages.ListDeploymentsResult:
		r.onStoreRead(ctx, msg)
	case *messages.GetDeployment:
		r.onGetDeployment(ctx, msg)
	case *messages.TierAnnounced:
		r.onTierAnnounced(ctx, msg)
	case *messages.FindBlocks:
		r.onFindBlocks(ctx, msg)
	case *messages.GetClusterView:
		r.onGetView(ctx)
	case *viewed:
		r.onViewed(ctx, msg)
	case *messages.GetExplanation:
		ctx.Respond(r.explanation(msg.GetRequestId()))
	case *messages.ReplicaStatus, *messages.SlotsStatus: // the query also triggers an announcement
	case *actor.DeadLetterResponse: // a tier or peer that has not started yet announces itself
	default:
		supervise.Unknown(ctx, "router")
	}
}
