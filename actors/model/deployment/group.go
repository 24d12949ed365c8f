package deployment

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Change is a change of one stored deployment.
type Change struct {
	Name     string
	Spec     *messages.DeploymentSpec // nil: deleted
	Revision uint64
	// Synced marks the end of the deployments that were stored when the watch began; the other
	// fields are empty.
	Synced bool
}

// Store keeps the desired state.
type Store interface {
	// Watch calls apply for every stored deployment, then with Synced, then for each change. It
	// returns when ctx ends or the store is lost.
	Watch(ctx context.Context, apply func(Change)) error
}

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

const (
	watchRetryDelay = time.Second
	syncInterval    = time.Second
	crashCooldown   = 30 * time.Second // before a deployment that crashed too often is retried
)

type group struct {
	GroupConfig
	incarnation uint64
	lifetime    context.Context
	cancel      context.CancelFunc

	stored      map[string]*stored
	synced      bool            // the store has been read once
	seen        map[string]bool // names received since the watch began; used to find deletions after an outage
	leaderships map[string]*leadership
	ending      bool // its children stop because it does
}

// stored is a stored deployment.
type stored struct{ apply *messages.ApplyDeployment }

// changed, watchEnded, watchNow and syncTick are notes to self.
type (
	changed struct {
		incarnation uint64
		change      Change
	}
	watchEnded struct {
		incarnation uint64
		err         error
	}
	watchNow struct{ incarnation uint64 }
	syncTick struct{ incarnation uint64 }
)

func (g *group) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		g.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		g.cancel()
		g.ending = true
	case *changed:
		g.onChanged(ctx, msg)
	case *watchEnded:
		g.onWatchEnded(ctx, msg)
	case *watchNow:
		if msg.incarnation == g.incarnation {
			g.watch(ctx)
		}
	case *syncTick:
		g.onSyncTick(ctx, msg)
	case *retryAcquire:
		if msg.incarnation == g.incarnation {
			g.syncLeases(ctx)
		}
	case *messages.MembersChanged:
		g.onMembers(ctx, msg)
	case *leaseAttempt:
		g.onLeaseAttempt(ctx, msg)
	case *removed:
		g.onRemoved(ctx, msg)
	case *messages.GetDeploymentSpec:
		g.onGetDeploymentSpec(ctx, msg)
	case *actor.Terminated:
		g.onTerminated(ctx, msg)
	}
}

func (g *group) onStarted(ctx actor.Context) {
	g.lifetime, g.cancel = context.WithCancel(context.Background())
	g.stored = make(map[string]*stored)
	g.leaderships = make(map[string]*leadership)
	g.watch(ctx)
	g.onSyncTick(ctx, &syncTick{g.incarnation})
}

func (g *group) onSyncTick(ctx actor.Context, msg *syncTick) {
	if msg.incarnation == g.incarnation {
		supervise.After(ctx, syncInterval, msg)
		g.syncLeases(ctx)
	}
}

// watch starts a job that follows the store.
func (g *group) watch(ctx actor.Context) {
	g.seen = make(map[string]bool)
	root, self, store, incarnation := ctx.ActorSystem().Root, ctx.Self(), g.Store, g.incarnation
	supervise.Job(ctx, g.lifetime,
		func(life context.Context) (struct{}, error) {
			return struct{}{}, store.Watch(life, func(c Change) { root.Send(self, &changed{incarnation, c}) })
		},
		func(_ struct{}, err error) any { return &watchEnded{incarnation, err} })
}

func (g *group) onWatchEnded(ctx actor.Context, msg *watchEnded) {
	if msg.incarnation != g.incarnation || g.lifetime.Err() != nil {
		return
	}
	g.Log.Warn().Err(msg.err).Msg("store watch lost; retrying")
	supervise.After(ctx, watchRetryDelay, &watchNow{g.incarnation})
}

func (g *group) onChanged(ctx actor.Context, msg *changed) {
	if msg.incarnation != g.incarnation {
		return
	}
	c := msg.change
	switch {
	case c.Synced:
		for name := range g.stored { // deleted during an outage
			if !g.seen[name] {
				g.remove(ctx, name)
			}
		}
		g.seen, g.synced = make(map[string]bool), true
		ctx.Send(g.Router, g.storedNames())
	case c.Spec == nil:
		g.remove(ctx, c.Name)
	default:
		g.seen[c.Name] = true
		g.apply(ctx, c)
	}
	g.syncLeases(ctx)
}

func (g *group) apply(ctx actor.Context, c Change) {
	if g.stored[c.Name] != nil && g.stored[c.Name].apply.GetRevision() == c.Revision {
		return // received before the outage
	}
	s := &stored{&messages.ApplyDeployment{Spec: c.Spec, Revision: c.Revision}}
	g.stored[c.Name] = s
	ctx.Send(g.Router, s.apply)
	if r := g.leaderships[c.Name]; r != nil && r.child != nil {
		ctx.Send(r.child, s.apply)
	}
}

func (g *group) remove(ctx actor.Context, name string) {
	delete(g.stored, name)
	gone := &messages.RemoveDeployment{Name: name}
	ctx.Send(g.Router, gone)
	if r := g.leaderships[name]; r != nil && r.child != nil {
		ctx.Send(r.child, gone)
	}
}

func (g *group) storedNames() *messages.ListDeploymentsResult {
	all := &messages.ListDeploymentsResult{}
	for name := range g.stored {
		all.Names = append(all.Names, name)
	}
	return all
}

// onGetDeploymentSpec answers a child with its spec, or the router with all of them.
func (g *group) onGetDeploymentSpec(ctx actor.Context, msg *messages.GetDeploymentSpec) {
	if msg.GetName() == "" {
		for _, s := range g.stored {
			ctx.Send(ctx.Sender(), s.apply)
		}
		if g.synced {
			ctx.Send(ctx.Sender(), g.storedNames())
		}
		return
	}
	switch s := g.stored[msg.GetName()]; {
	case s != nil:
		ctx.Respond(s.apply)
	case g.synced:
		ctx.Respond(&messages.RemoveDeployment{Name: msg.GetName()})
	}
}
