package router

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/core/route"
	"troupe/messages"
)

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Node string // its name
	// Members returns who is in the cluster now. Changes come as MembersChanged.
	Members     func() *messages.MembersChanged
	Peer        func(m *messages.Member) *actor.PID // the router of a member
	Replicas    *actor.PID                          // the group of this node
	Deployments *actor.PID                          // likewise
	Tiers       []*actor.PID                        // KV tiers of this node
	Sessions    func() int                          // open calls at the gateway of this node
	Cache       *DeploymentCache                    // nil: nobody else reads what is deployed
	// OnSynced is called once the router knows what others knew before it: what is stored, and what runs on every other node. Nil: nobody
	// waits for that.
	OnSynced func()
	// Adapters says what to tell a replica of a model that reports these adapters; nil: nothing.
	Adapters func(model string, held []*messages.AdapterHeld) []proto.Message
	Log      zerolog.Logger
}

// Props returns the recipe for a router.
func Props(cfg Config) *actor.Props {
	if cfg.Cache == nil {
		cfg.Cache = new(DeploymentCache)
	}
	if cfg.OnSynced == nil {
		cfg.OnSynced = func() {}
	}
	return supervise.Props(func() actor.Actor {
		return &router{Config: cfg, incarnation: uint64(time.Now().UnixNano())} // later lives, also of the process, are greater
	})
}

const (
	flushInterval         = 100 * time.Millisecond
	heartbeatFlushes      = 5                      // flushes, where nothing changed
	silenceTimeout        = time.Second            // two beats: from when on a node that says nothing is avoided
	snapshotRetryInterval = 500 * time.Millisecond // for a snapshot, of one peer
	routeRetryAfter       = 50 * time.Millisecond  // when a session may ask for a route again
	snapshotBlocks        = 8192                   // of one replica: 64 KiB
	loggedRequests        = 1024                   // decisions
)

type router struct {
	Config
	incarnation uint64

	models           map[string]*modelRoutes               // what is served, by model
	storeSynced      bool                                  // all that is stored is known
	syncedOnce       bool                                  // OnSynced was called
	deploymentStatus map[string]*messages.DeploymentStatus // by the node where each deployment lives
	peers            map[string]*peer                      // the other nodes
	leaving          map[string]bool                       // nodes that are about to end
	tiers            map[tierName]*messages.TierAnnounced  // the last word of each, without its blocks
	tierBlocks       *route.Holders                        // the blocks of tiers, by the name's String

	sequence     uint64                    // of the last announcement
	pendingDelta *messages.RoutesAnnounced // since then
	idleFlushes  int                       // flushes without news
	flushDue     time.Time                 // when the next flush should come; zero: none was
	decisions    decisionLog
}

// table is one model's routes.
type modelRoutes struct {
	routes   *route.Routes
	replicas map[string]*replica
}

// replica is what was announced last.
type replica struct {
	node   string
	status *messages.ReplicaStatus
}

// peer is the router of another node.
type peer struct {
	member            *messages.Member
	pid               *actor.PID
	deltas            route.Feed
	snapshotRequested time.Time // for a snapshot
	lastHeard         time.Time // zero: not since its connection broke
	watched           bool      // until then
	sessions          uint32
}

// flush is a note to self.
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
	case *messages.GetTable:
		ctx.Respond(r.clusterView())
	case *messages.GetExplanation:
		ctx.Respond(r.decisions.explain(msg.GetRequestId(), r.Node))
	}
}

func (r *router) onStarted(ctx actor.Context) {
	r.models = make(map[string]*modelRoutes)
	r.deploymentStatus = make(map[string]*messages.DeploymentStatus)
	r.peers = make(map[string]*peer)
	r.tiers, r.tierBlocks = make(map[tierName]*messages.TierAnnounced), route.NewHolders()
	r.decisions = newDecisionLog(loggedRequests)
	r.pendingDelta = r.newDelta(ctx)
	ctx.Request(r.Replicas, &messages.ListReplicas{})
	ctx.Request(r.Deployments, &messages.GetDesired{})
	for _, tier := range r.Tiers {
		ctx.Request(tier, &messages.GetSlots{})
	}
	r.onMembers(ctx, r.Members())
	r.onFlush(ctx, &flush{r.incarnation})
}

// onReplicaList: what runs on this node is asked how it is, after a crash of the router.
func (r *router) onReplicaList(ctx actor.Context, msg *messages.ListReplicasResult) {
	for _, m := range msg.GetReplicas() {
		ctx.Request(actor.NewPID(m.GetActor().GetAddress(), m.GetActor().GetId()), &messages.GetReplica{})
	}
}

// onReplicaAnnounced takes the word of a replica of this node.
func (r *router) onReplicaAnnounced(ctx actor.Context, msg *messages.ReplicaAnnounced) {
	if ref := msg.GetStatus().GetActor(); !r.hasLocal(msg.GetStatus()) {
		ctx.Watch(actor.NewPID(ref.GetAddress(), ref.GetId()))
	}
	r.applyReplica(r.Node, msg)
	r.reconcileAdapters(ctx, msg.GetStatus())
	r.pendingDelta.Replicas = append(r.pendingDelta.Replicas, msg)
}

// reconcileAdapters tells a replica of this node what is no longer as the catalogue of adapters has it. It is said again with each report until it is so.
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

// onTerminated: a replica of this node is gone, or the way to another node is.
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

// onRouteDeployment takes the word of a deployment that lives on this node.
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

// onStoreSynced: all that is stored has been told.
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
