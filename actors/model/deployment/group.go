package deployment

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Change is a stored deployment, or that one is gone.
type Change struct {
	Name     string
	Spec     *messages.DeploymentSpec // nil: deleted
	Revision uint64
	// Synced marks the end of what was stored when the watch began; the other fields are empty.
	Synced bool
}

// Store is where the desired state is kept.
type Store interface {
	// Watch gives every stored deployment to apply, then Synced, then each change, until ctx ends or the store is lost.
	Watch(ctx context.Context, apply func(Change)) error
}

// GroupConfig is fixed for the life of the group and shared by its restarts.
type GroupConfig struct {
	Store      Store
	Deployment func(name string) *actor.Props // the recipe of a child
	Strategy   actor.SupervisorStrategy
	Log        zerolog.Logger
}

// GroupProps returns the recipe for the deployments group.
func GroupProps(cfg GroupConfig) *actor.Props {
	var incarnation uint64
	return actor.PropsFromProducer(func() actor.Actor {
		incarnation++
		return &group{GroupConfig: cfg, incarnation: incarnation}
	}, actor.WithSupervisor(cfg.Strategy))
}

const (
	watchAgain = time.Second
	coolDown   = 30 * time.Second // of a deployment that crashed too often
)

type group struct {
	GroupConfig
	incarnation uint64
	life        context.Context
	end         context.CancelFunc

	desired map[string]*desired // name -> what it is to be
	seen    map[string]bool     // names in the watch's first pass; nil after it
	ending  bool                // its children end because it does
}

type desired struct {
	apply    *messages.ApplyDeployment // nil: to be removed
	child    *actor.PID
	removing bool // the child was told to remove itself
}

// changed, watchEnded and revive are notes to self.
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
	revive   struct {
		incarnation uint64
		name        string
	}
)

func (g *group) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		g.life, g.end = context.WithCancel(context.Background())
		g.desired = make(map[string]*desired)
		g.watch(ctx)
	case *actor.Restarting, *actor.Stopping:
		g.end()
		g.ending = true
	case *changed:
		g.onChanged(ctx, msg)
	case *watchEnded:
		g.onWatchEnded(ctx, msg)
	case *watchNow:
		if msg.incarnation == g.incarnation {
			g.watch(ctx)
		}
	case *messages.GetDesired:
		g.onGetDesired(ctx, msg)
	case *messages.ListDeployments:
		ctx.Respond(&messages.ListDeploymentsResult{Names: slices.Sorted(maps.Keys(g.desired))})
	case *actor.Terminated:
		g.onTerminated(ctx, msg)
	case *revive:
		g.onRevive(ctx, msg)
	}
}

// watch follows the store in a job.
func (g *group) watch(ctx actor.Context) {
	g.seen = make(map[string]bool)
	root, self, store, incarnation := ctx.ActorSystem().Root, ctx.Self(), g.Store, g.incarnation
	supervise.Job(ctx, g.life,
		func(life context.Context) (struct{}, error) {
			return struct{}{}, store.Watch(life, func(c Change) { root.Send(self, &changed{incarnation, c}) })
		},
		func(_ struct{}, err error) any { return &watchEnded{incarnation, err} })
}

func (g *group) onWatchEnded(ctx actor.Context, msg *watchEnded) {
	if msg.incarnation != g.incarnation || g.life.Err() != nil {
		return
	}
	g.Log.Warn().Err(msg.err).Msg("store lost, watching it again")
	supervise.After(ctx, watchAgain, &watchNow{g.incarnation})
}

func (g *group) onChanged(ctx actor.Context, msg *changed) {
	if msg.incarnation != g.incarnation {
		return
	}
	c := msg.change
	switch {
	case c.Synced:
		for name := range g.desired { // deleted while nobody watched
			if !g.seen[name] {
				g.remove(ctx, name)
			}
		}
		g.seen = nil
	case c.Spec == nil:
		g.remove(ctx, c.Name)
	default:
		if g.seen != nil {
			g.seen[c.Name] = true
		}
		g.apply(ctx, c)
	}
}

func (g *group) apply(ctx actor.Context, c Change) {
	d, ok := g.desired[c.Name]
	if !ok {
		d = &desired{}
		g.desired[c.Name] = d
	}
	if d.apply.GetRevision() == c.Revision {
		return // seen before the watch was lost
	}
	d.apply = &messages.ApplyDeployment{Spec: c.Spec, Revision: c.Revision}
	if d.child == nil {
		g.spawn(ctx, c.Name, d)
		return // it asks
	}
	ctx.Send(d.child, d.apply)
}

func (g *group) remove(ctx actor.Context, name string) {
	if d, ok := g.desired[name]; ok {
		d.apply, d.removing = nil, true
		if d.child == nil {
			delete(g.desired, name)
			return
		}
		ctx.Send(d.child, &messages.RemoveDeployment{Name: name})
	}
}

func (g *group) spawn(ctx actor.Context, name string, d *desired) {
	pid, err := ctx.SpawnNamed(g.Deployment(name), name)
	if err != nil {
		g.Log.Error().Err(err).Str("model", name).Msg("deployment not started")
		return
	}
	d.child, d.removing = pid, false
}

func (g *group) onGetDesired(ctx actor.Context, msg *messages.GetDesired) {
	if d := g.desired[msg.GetName()]; d != nil && d.apply != nil {
		ctx.Respond(d.apply)
		return
	}
	ctx.Respond(&messages.RemoveDeployment{Name: msg.GetName()})
}

// onTerminated: a deployment has removed itself, or crashed too often.
func (g *group) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	if g.ending {
		return
	}
	for name, d := range g.desired {
		if d.child.GetId() != msg.GetWho().GetId() {
			continue
		}
		d.child = nil
		switch {
		case d.apply == nil:
			delete(g.desired, name)
		case d.removing: // deployed again while it was being removed
			g.spawn(ctx, name, d)
		default:
			supervise.After(ctx, coolDown, &revive{g.incarnation, name})
		}
	}
}

func (g *group) onRevive(ctx actor.Context, msg *revive) {
	if d := g.desired[msg.name]; msg.incarnation == g.incarnation && d != nil && d.child == nil {
		g.spawn(ctx, msg.name, d)
	}
}
