package deployment

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/leadership"
	"troupe/messages"
)

// Leases determine which member runs which deployment. Holder and Roles are local and do not block.
type Leases interface {
	// Holder returns the name of the live member that holds a role, and the term, or "" if there is
	// none.
	Holder(role string) (member string, term uint64)
	// Roles returns the roles that were acquired and not released, including those of lost members.
	Roles() []string
	// Acquire takes a free role. It reports false if another member holds it.
	Acquire(ctx context.Context, role string) (bool, error)
	Release(ctx context.Context, role string, term uint64) error
}

// GroupConfig is fixed for the life of the group and shared by its restarts.
type GroupConfig struct {
	Node    string // name of this node
	Store   Store
	Leases  Leases
	Members func() *messages.MembersChanged // current members; changes arrive as MembersChanged
	Router  *actor.PID                      // of this node; receives the stored deployments
	// HostCache is the actor of the images of weights on this node, which receives the stored deployments
	// too; nil: none.
	HostCache *actor.PID
	// Deployment returns the props of a child.
	Deployment func(name string, term uint64) *actor.Props
	Strategy   actor.SupervisorStrategy
	Log        zerolog.Logger
}

// GroupProps returns the props of the deployments group.
func GroupProps(cfg GroupConfig) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &group{GroupConfig: cfg, incarnation: incarnation}
	}, actor.WithSupervisor(cfg.Strategy))
}

// syncInterval is the time between two checks of the leases.
const syncInterval = time.Second

type group struct {
	GroupConfig
	incarnation uint64
	lifetime    context.Context
	cancel      context.CancelFunc

	stored      map[string]*stored
	dropped     map[string]bool // deleted deployments whose replicas free their weights
	synced      bool            // the store has been read once
	seen        map[string]bool // names received since the watch began; used to find deletions after an outage
	leaderships *leadership.Node
	children    map[string]*actor.PID // the deployments that run here, by name
	ending      bool                  // the group is stopping, and its children with it
}

// syncTick is a message to self.
type syncTick struct{ incarnation uint64 }

func (g *group) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		g.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		g.onStopping()
	case *changed:
		g.onChanged(ctx, msg)
	case *watchEnded:
		g.onWatchEnded(ctx, msg)
	case *watchNow:
		g.onWatchNow(ctx, msg)
	case *syncTick:
		g.onSyncTick(ctx, msg)
	case *retryAcquire:
		g.onRetryAcquire(ctx, msg)
	case *messages.MembersChanged:
		g.onMembers(ctx, msg)
	case *leaseAttempt:
		g.onLeaseAttempt(ctx, msg)
	case *removed:
		g.onRemoved(ctx, msg)
	case *messages.WakeModel:
		g.onWakeModel(ctx, msg)
	case *messages.PlacementRefused:
		g.onPlacementRefused(ctx, msg)
	case *messages.GetDeploymentSpec:
		g.onGetDeploymentSpec(ctx, msg)
	case *actor.Terminated:
		g.onTerminated(ctx, msg)
	default:
		supervise.Unknown(ctx, "deployments")
	}
}

func (g *group) onStarted(ctx actor.Context) {
	g.lifetime, g.cancel = context.WithCancel(context.Background())
	g.stored, g.dropped = make(map[string]*stored), make(map[string]bool)
	g.leaderships, g.children = leadership.New(g.Node), make(map[string]*actor.PID)
	g.watch(ctx)
	g.onSyncTick(ctx, &syncTick{g.incarnation})
}

func (g *group) onStopping() {
	g.cancel()
	g.ending = true
}

func (g *group) onSyncTick(ctx actor.Context, msg *syncTick) {
	if msg.incarnation == g.incarnation {
		supervise.After(ctx, syncInterval, msg)
		g.syncLeases(ctx)
	}
}
