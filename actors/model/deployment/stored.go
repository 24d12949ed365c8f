package deployment

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Change is a change of one stored deployment.
type Change struct {
	Name string
	Spec *messages.DeploymentSpec // nil: deleted
	// DropWeights means that the replicas of a deleted deployment free their weights.
	DropWeights bool
	Revision    uint64
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

// watchRetryDelay is the time before a lost watch of the store is started again.
const watchRetryDelay = time.Second

// stored is the state of one deployment in the store.
type stored struct{ apply *messages.ApplyDeployment }

// changed, watchEnded and watchNow are messages to self.
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
)

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

func (g *group) onWatchNow(ctx actor.Context, msg *watchNow) {
	if msg.incarnation == g.incarnation {
		g.watch(ctx)
	}
}

func (g *group) onChanged(ctx actor.Context, msg *changed) {
	if msg.incarnation != g.incarnation {
		return
	}
	c := msg.change
	switch {
	case c.Synced:
		for _, name := range slices.Sorted(maps.Keys(g.stored)) { // deleted during an outage
			if !g.seen[name] {
				g.remove(ctx, name, false)
			}
		}
		g.seen, g.synced = make(map[string]bool), true
		g.tellNode(ctx, g.storedNames())
	case c.Spec == nil:
		g.remove(ctx, c.Name, c.DropWeights)
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
	delete(g.dropped, c.Name)
	s := &stored{&messages.ApplyDeployment{Spec: c.Spec, Revision: c.Revision}}
	g.stored[c.Name] = s
	g.tellNode(ctx, s.apply)
	if child := g.children[c.Name]; child != nil {
		ctx.Send(child, s.apply)
	}
}

func (g *group) remove(ctx actor.Context, name string, drop bool) {
	delete(g.stored, name)
	if drop {
		g.dropped[name] = true
	}
	gone := &messages.RemoveDeployment{Name: name, DropWeights: drop}
	g.tellNode(ctx, gone)
	if child := g.children[name]; child != nil {
		ctx.Send(child, gone)
	}
}

// tellNode sends what is stored to the actors of this node that follow it.
func (g *group) tellNode(ctx actor.Context, msg any) {
	ctx.Send(g.Router, msg)
	if g.HostCache != nil {
		ctx.Send(g.HostCache, msg)
	}
}

func (g *group) storedNames() *messages.ListDeploymentsResult {
	return &messages.ListDeploymentsResult{Names: slices.Sorted(maps.Keys(g.stored))}
}

// onGetDeploymentSpec answers a child with its spec, or the router with all of them.
func (g *group) onGetDeploymentSpec(ctx actor.Context, msg *messages.GetDeploymentSpec) {
	if msg.GetName() == "" {
		for _, name := range slices.Sorted(maps.Keys(g.stored)) {
			ctx.Send(ctx.Sender(), g.stored[name].apply)
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
		ctx.Respond(&messages.RemoveDeployment{Name: msg.GetName(), DropWeights: g.dropped[msg.GetName()]})
	}
}
