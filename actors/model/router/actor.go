package router

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/core/route"
	"troupe/messages"
)

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Node string // name of this node
	// Members returns the current members of the cluster. Changes arrive as MembersChanged.
	Members     func() *messages.MembersChanged
	Peer        func(m *messages.Member) *actor.PID // the router of a member
	Replicas    *actor.PID                          // the replicas group of this node
	Deployments *actor.PID                          // the deployments group of this node
	Tiers       []*actor.PID                        // of this node
	Sessions    func() int                          // returns the number of open calls at this node's gateway
	Cache       *DeploymentCache                    // nil: a private one
	// OnSynced is called once the router knows everything that the others knew before it: the
	// stored deployments, and the replicas of every other node. May be nil.
	OnSynced func()
	// Adapters returns the messages to send to a replica of a model that reports these adapters;
	// nil: none.
	Adapters func(model string, held []*messages.AdapterHeld) []proto.Message
}

// Props returns the props of a router.
func Props(cfg Config) *actor.Props {
	if cfg.Cache == nil {
		cfg.Cache = new(DeploymentCache)
	}
	if cfg.OnSynced == nil {
		cfg.OnSynced = func() {}
	}
	return supervise.Props(func() actor.Actor {
		// incarnation grows over restarts of the actor and of the process
		return &router{Config: cfg, incarnation: uint64(time.Now().UnixNano())}
	})
}

const (
	flushInterval         = 100 * time.Millisecond
	heartbeatFlushes      = 5                      // flushes without changes between two announcements
	silenceTimeout        = time.Second            // two heartbeats; then the node is avoided
	snapshotRetryInterval = 500 * time.Millisecond // per peer
	routeRetryAfter       = 50 * time.Millisecond  // in refusals of a route
	snapshotBlocks        = 8192                   // per replica: 64 KiB
	loggedRequests        = 1024                   // in the decision log
)

type router struct {
	Config
	incarnation uint64

	models           map[string]*modelRoutes               // replicas by model
	storeSynced      bool                                  // all stored deployments are known
	syncedOnce       bool                                  // OnSynced was called
	deploymentStatus map[string]*messages.DeploymentStatus // by name, as announced by the leader
	peers            map[string]*peer                      // the other nodes by name
	leaving          map[string]bool                       // nodes that are shutting down
	tiers            map[tierName]*messages.TierAnnounced  // last announcement of each, without its blocks
	tierBlocks       *route.BlockIndex                     // by tierName.String

	sequence     uint64                    // of the last announcement
	pendingDelta *messages.RoutesAnnounced // changes since the last announcement
	idleFlushes  int                       // flushes since the last announcement
	flushDue     time.Time                 // zero: before the first flush
	decisions    decisionLog
}

// modelRoutes is the routing state of one model.
type modelRoutes struct {
	routes   *route.Routes
	replicas map[string]*replica
}

// replica is the last announcement of a replica.
type replica struct {
	node   string
	status *messages.ReplicaStatus
}

// peer is the router of another node.
type peer struct {
	member            *messages.Member
	pid               *actor.PID
	deltas            route.DeltaStream
	snapshotRequested time.Time // time of the last request
	lastHeard         time.Time // zero: nothing since the connection broke
	watched           bool      // until the connection breaks
	sessions          uint32
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
	case *messages.SequenceMoved:
		r.decisions.add(msg.GetRequestId(), logEntry{time: time.Now(), moved: msg})
	case *messages.ReplicaAnnounced:
		r.onReplicaAnnounced(ctx, msg)
	case *messages.RoutesAnnounced:
		r.onRoutesAnnounced(ctx, msg)
	case *messages.GetRoutes:
		ctx.Respond(r.snapshot(ctx))
	case *messages.MembersChanged:
		r.onMembers(ctx, msg)
	case *actor.Terminated:
		r.onTerminated(msg)
	case *messages.ListReplicasResult:
		r.onReplicaList(ctx, msg)
	case *messages.RouteDeployment:
		r.onRouteDeployment(msg)
	case *messages.ApplyDeployment:
		r.Cache.put(msg)
	case *messages.RemoveDeployment:
		r.Cache.remove(msg.GetName())
	case *messages.ListDeploymentsResult:
		r.onStoreSynced(msg)
	case *messages.GetDeployment:
		r.onGetDeployment(ctx, msg)
	case *messages.TierAnnounced:
		r.onTierAnnounced(msg)
	case *messages.FindBlocks:
		r.onFindBlocks(ctx, msg)
	case *messages.GetClusterView:
		ctx.Respond(r.clusterView())
	case *messages.GetExplanation:
		ctx.Respond(r.decisions.explain(msg.GetRequestId(), r.Node))
	case *messages.ReplicaStatus, *messages.SlotsStatus: // the query also triggers an announcement
	default:
		supervise.Unknown(ctx, "router")
	}
}

func (r *router) onStarted(ctx actor.Context) {
	r.models = make(map[string]*modelRoutes)
	r.deploymentStatus = make(map[string]*messages.DeploymentStatus)
	r.peers = make(map[string]*peer)
	r.tiers, r.tierBlocks = make(map[tierName]*messages.TierAnnounced), route.NewBlockIndex()
	r.decisions = newDecisionLog(loggedRequests)
	r.pendingDelta = r.newDelta(ctx)
	ctx.Request(r.Replicas, &messages.ListReplicas{})
	ctx.Request(r.Deployments, &messages.GetDeploymentSpec{})
	for _, tier := range r.Tiers {
		ctx.Request(tier, &messages.GetSlots{})
	}
	r.onMembers(ctx, r.Members())
	r.onFlush(ctx, &flush{r.incarnation})
}

// onReplicaList requests the status of this node's replicas after the router started.
func (r *router) onReplicaList(ctx actor.Context, msg *messages.ListReplicasResult) {
	for _, m := range msg.GetReplicas() {
		ctx.Request(actor.NewPID(m.GetActor().GetAddress(), m.GetActor().GetId()), &messages.GetReplica{})
	}
}

// onReplicaAnnounced applies the report of a replica of this node.
func (r *router) onReplicaAnnounced(ctx actor.Context, msg *messages.ReplicaAnnounced) {
	if ref := msg.GetStatus().GetActor(); !r.hasLocal(msg.GetStatus()) {
		ctx.Watch(actor.NewPID(ref.GetAddress(), ref.GetId()))
	}
	r.applyReplica(r.Node, msg)
	r.reconcileAdapters(ctx, msg.GetStatus())
	r.pendingDelta.Replicas = append(r.pendingDelta.Replicas, msg)
}

// reconcileAdapters sends a replica of this node the differences between its adapters and the
// catalogue. It does so with each report until they agree.
func (r *router) reconcileAdapters(ctx actor.Context, s *messages.ReplicaStatus) {
	if r.Adapters == nil || stateOf(s) != route.Serving {
		return
	}
	to := actor.NewPID(s.GetActor().GetAddress(), s.GetActor().GetId())
	for _, m := range r.Adapters(s.GetModel(), s.GetAdapters()) {
		ctx.Send(to, m)
	}
}

func (r *router) hasLocal(s *messages.ReplicaStatus) bool {
	t := r.models[s.GetModel()]
	return t != nil && t.replicas[s.GetName()] != nil && t.replicas[s.GetName()].node == r.Node
}

// onTerminated handles the end of a replica of this node, or of the connection to another node.
func (r *router) onTerminated(msg *actor.Terminated) {
	for _, p := range r.peers {
		if p.pid.Equal(msg.GetWho()) {
			p.lastHeard, p.watched = time.Time{}, false
			return
		}
	}
	for _, t := range r.models {
		for name, m := range t.replicas {
			if m.node == r.Node && m.status.GetActor().GetId() == msg.GetWho().GetId() {
				t.remove(name)
				r.pendingDelta.Gone = append(r.pendingDelta.Gone, name)
			}
		}
	}
}

// onRouteDeployment applies the report of a deployment whose leader is this node.
func (r *router) onRouteDeployment(msg *messages.RouteDeployment) {
	name := msg.GetStatus().GetSpec().GetName()
	if !msg.GetWithdrawn() {
		r.deploymentStatus[name] = msg.GetStatus()
		r.pendingDelta.Deployments = append(r.pendingDelta.Deployments, msg.GetStatus())
		return
	}
	if r.deploymentStatus[name].GetNode() == r.Node {
		delete(r.deploymentStatus, name)
		r.pendingDelta.Withdrawn = append(r.pendingDelta.Withdrawn, name)
	}
}

// onStoreSynced handles the end of the stored deployments.
func (r *router) onStoreSynced(msg *messages.ListDeploymentsResult) {
	r.storeSynced = true
	names := make(map[string]bool, len(msg.GetNames()))
	for _, name := range msg.GetNames() {
		names[name] = true
	}
	for _, name := range r.Cache.names() {
		if !names[name] {
			r.Cache.remove(name)
		}
	}
	r.notifySynced()
}

func (r *router) onFlush(ctx actor.Context, msg *flush) {
	if msg.incarnation != r.incarnation {
		return
	}
	if !r.flushDue.IsZero() {
		r.creditStall(time.Since(r.flushDue))
	}
	r.flushDue = time.Now().Add(flushInterval)
	supervise.After(ctx, flushInterval, msg)
	r.idleFlushes++
	if isEmpty(r.pendingDelta) && r.idleFlushes < heartbeatFlushes {
		return
	}
	r.idleFlushes = 0
	r.sequence++
	r.pendingDelta.Sequence, r.pendingDelta.Sessions = r.sequence, uint32(r.Sessions())
	for _, p := range r.peers {
		ctx.Send(p.pid, r.pendingDelta)
	}
	r.pendingDelta = r.newDelta(ctx)
}

func (r *router) newDelta(ctx actor.Context) *messages.RoutesAnnounced {
	return &messages.RoutesAnnounced{
		Node: r.Node, Incarnation: r.incarnation,
		Router: &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()},
	}
}

func isEmpty(a *messages.RoutesAnnounced) bool {
	return len(a.GetReplicas())+len(a.GetGone())+len(a.GetDeployments())+len(a.GetWithdrawn())+len(a.GetTiers()) == 0
}
