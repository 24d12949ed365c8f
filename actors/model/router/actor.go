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
	Stored      *Stored                             // nil: nobody else reads what is deployed
	// Informed is called once the router knows what others knew before it: what is stored, and what runs on every other node. Nil: nobody
	// waits for that.
	Informed func()
	// Adapters says what to tell a replica of a model that reports these adapters; nil: nothing.
	Adapters func(model string, held []*messages.AdapterHeld) []proto.Message
	Log      zerolog.Logger
}

// Props returns the recipe for a router.
func Props(cfg Config) *actor.Props {
	if cfg.Stored == nil {
		cfg.Stored = new(Stored)
	}
	if cfg.Informed == nil {
		cfg.Informed = func() {}
	}
	return supervise.Props(func() actor.Actor {
		return &router{Config: cfg, incarnation: uint64(time.Now().UnixNano())} // later lives, also of the process, are greater
	})
}

const (
	flushEvery     = 100 * time.Millisecond
	beatEvery      = 5                      // flushes, where nothing changed
	silentAfter    = time.Second            // two beats: from when on a node that says nothing is avoided
	askEvery       = 500 * time.Millisecond // for a snapshot, of one peer
	retryAfter     = 50 * time.Millisecond  // when a session may ask for a route again
	snapshotBlocks = 8192                   // of one replica: 64 KiB
	remembered     = 1024                   // decisions
)

type router struct {
	Config
	incarnation uint64

	models  map[string]*table                     // what is served, by model
	synced  bool                                  // all that is stored is known
	whole   bool                                  // Informed was called
	led     map[string]*messages.DeploymentStatus // by the node where each deployment lives
	peers   map[string]*peer                      // the other nodes
	leaving map[string]bool                       // nodes that are about to end
	tiers   map[tierName]*messages.TierAnnounced  // the last word of each, without its blocks
	held    *route.BlockIndex                     // the blocks of tiers, by the name's String

	sequence uint64                    // of the last announcement
	news     *messages.RoutesAnnounced // since then
	quiet    int                       // flushes without news
	due      time.Time                 // when the next flush should come; zero: none was
	memory   memory
}

// table is one model's routes.
type table struct {
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
	member   *messages.Member
	pid      *actor.PID
	feed     route.DeltaStream
	asked    time.Time // for a snapshot
	heard    time.Time // zero: not since its connection broke
	watched  bool      // until then
	sessions uint32
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
		r.onRoute(ctx, msg)
	case *messages.SequenceMoved:
		r.memory.add(msg.GetRequestId(), record{time: time.Now(), moved: msg})
	case *messages.ReplicaAnnounced:
		r.onReplica(ctx, msg)
	case *messages.RoutesAnnounced:
		r.onPeer(ctx, msg)
	case *messages.GetRoutes:
		ctx.Respond(r.snapshot(ctx))
	case *messages.MembersChanged:
		r.onMembers(ctx, msg)
	case *actor.Terminated:
		r.onTerminated(msg)
	case *messages.ListReplicasResult:
		r.onReplicas(ctx, msg)
	case *messages.RouteDeployment:
		r.onDeployment(msg)
	case *messages.ApplyDeployment:
		r.Stored.put(msg)
	case *messages.RemoveDeployment:
		r.Stored.remove(msg.GetName())
	case *messages.ListDeploymentsResult:
		r.onSynced(msg)
	case *messages.GetDeployment:
		r.onGet(ctx, msg)
	case *messages.TierAnnounced:
		r.onTier(msg)
	case *messages.FindBlocks:
		r.onFind(ctx, msg)
	case *messages.GetTable:
		ctx.Respond(r.table())
	case *messages.GetExplanation:
		ctx.Respond(r.memory.explain(msg.GetRequestId(), r.Node))
	}
}

func (r *router) onStarted(ctx actor.Context) {
	r.models = make(map[string]*table)
	r.led = make(map[string]*messages.DeploymentStatus)
	r.peers = make(map[string]*peer)
	r.tiers, r.held = make(map[tierName]*messages.TierAnnounced), route.NewBlockIndex()
	r.memory = newMemory(remembered)
	r.news = r.blank(ctx)
	ctx.Request(r.Replicas, &messages.ListReplicas{})
	ctx.Request(r.Deployments, &messages.GetDesired{})
	for _, tier := range r.Tiers {
		ctx.Request(tier, &messages.GetSlots{})
	}
	r.onMembers(ctx, r.Members())
	r.onFlush(ctx, &flush{r.incarnation})
}

// onReplicas: what runs on this node is asked how it is, after a crash of the router.
func (r *router) onReplicas(ctx actor.Context, msg *messages.ListReplicasResult) {
	for _, m := range msg.GetReplicas() {
		ctx.Request(actor.NewPID(m.GetActor().GetAddress(), m.GetActor().GetId()), &messages.GetReplica{})
	}
}

// onReplica takes the word of a replica of this node.
func (r *router) onReplica(ctx actor.Context, msg *messages.ReplicaAnnounced) {
	if ref := msg.GetStatus().GetActor(); !r.knows(msg.GetStatus()) {
		ctx.Watch(actor.NewPID(ref.GetAddress(), ref.GetId()))
	}
	r.adopt(r.Node, msg)
	r.correct(ctx, msg.GetStatus())
	r.news.Replicas = append(r.news.Replicas, msg)
}

// correct tells a replica of this node what is no longer as the catalogue of adapters has it. It is said again with each report until it is so.
func (r *router) correct(ctx actor.Context, s *messages.ReplicaStatus) {
	if r.Adapters == nil || stateOf(s) != route.Serving {
		return
	}
	to := actor.NewPID(s.GetActor().GetAddress(), s.GetActor().GetId())
	for _, m := range r.Adapters(s.GetModel(), s.GetAdapters()) {
		ctx.Send(to, m)
	}
}

func (r *router) knows(s *messages.ReplicaStatus) bool {
	t := r.models[s.GetModel()]
	return t != nil && t.replicas[s.GetName()] != nil && t.replicas[s.GetName()].node == r.Node
}

// onTerminated: a replica of this node is gone, or the way to another node is.
func (r *router) onTerminated(msg *actor.Terminated) {
	for _, p := range r.peers {
		if p.pid.Equal(msg.GetWho()) {
			p.heard, p.watched = time.Time{}, false
			return
		}
	}
	for _, t := range r.models {
		for name, m := range t.replicas {
			if m.node == r.Node && m.status.GetActor().GetId() == msg.GetWho().GetId() {
				t.remove(name)
				r.news.Gone = append(r.news.Gone, name)
			}
		}
	}
}

// onDeployment takes the word of a deployment that lives on this node.
func (r *router) onDeployment(msg *messages.RouteDeployment) {
	name := msg.GetStatus().GetSpec().GetName()
	if !msg.GetWithdrawn() {
		r.led[name] = msg.GetStatus()
		r.news.Deployments = append(r.news.Deployments, msg.GetStatus())
		return
	}
	if r.led[name].GetNode() == r.Node {
		delete(r.led, name)
		r.news.Withdrawn = append(r.news.Withdrawn, name)
	}
}

// onSynced: all that is stored has been told.
func (r *router) onSynced(msg *messages.ListDeploymentsResult) {
	r.synced = true
	names := make(map[string]bool, len(msg.GetNames()))
	for _, name := range msg.GetNames() {
		names[name] = true
	}
	for _, name := range r.Stored.names() {
		if !names[name] {
			r.Stored.remove(name)
		}
	}
	r.inform()
}

func (r *router) onFlush(ctx actor.Context, msg *flush) {
	if msg.incarnation != r.incarnation {
		return
	}
	if !r.due.IsZero() {
		r.stoodStill(time.Since(r.due))
	}
	r.due = time.Now().Add(flushEvery)
	supervise.After(ctx, flushEvery, msg)
	r.quiet++
	if empty(r.news) && r.quiet < beatEvery {
		return
	}
	r.quiet = 0
	r.sequence++
	r.news.Sequence, r.news.Sessions = r.sequence, uint32(r.Sessions())
	for _, p := range r.peers {
		ctx.Send(p.pid, r.news)
	}
	r.news = r.blank(ctx)
}

func (r *router) blank(ctx actor.Context) *messages.RoutesAnnounced {
	return &messages.RoutesAnnounced{
		Node: r.Node, Incarnation: r.incarnation,
		Router: &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()},
	}
}

func empty(a *messages.RoutesAnnounced) bool {
	return len(a.GetReplicas())+len(a.GetGone())+len(a.GetDeployments())+len(a.GetWithdrawn())+len(a.GetTiers()) == 0
}
