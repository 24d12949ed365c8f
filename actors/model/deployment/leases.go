package deployment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/leadership"
	"troupe/messages"
)

const (
	rolePrefix   = "deployment."
	leaseTimeout = 2 * time.Second
)

// leaseAttempt is a message to self: an Acquire or Release has ended.
type leaseAttempt struct {
	incarnation uint64
	name        string
	err         error
}

// retryAcquire is a message to self.
type retryAcquire struct{ incarnation uint64 }

// syncLeases compares the leases with the deployments that run here.
func (g *group) syncLeases(ctx actor.Context) {
	if g.synced {
		g.perform(ctx, g.leaderships.Sync(g.view(), supervise.Now(ctx)))
	}
}

// view returns the leases, the stored deployments and the members as they are now.
func (g *group) view() leadership.View {
	v := leadership.View{Deployments: make(map[string]leadership.Seen)}
	for name := range g.stored {
		v.Deployments[name] = leadership.Seen{Stored: true}
	}
	for _, role := range g.Leases.Roles() {
		if name, ok := strings.CutPrefix(role, rolePrefix); ok {
			v.Deployments[name] = leadership.Seen{Stored: g.stored[name] != nil, Leased: true}
		}
	}
	for _, name := range g.leaderships.Names() {
		if _, ok := v.Deployments[name]; !ok { // it was deleted and still runs
			v.Deployments[name] = leadership.Seen{}
		}
	}
	for name, seen := range v.Deployments {
		seen.Lease = g.lease(name)
		v.Deployments[name] = seen
	}
	for _, m := range g.Members().GetMembers() {
		if m.GetState() == messages.MemberState_MEMBER_STATE_UP {
			v.Up = append(v.Up, m.GetName())
		}
	}
	return v
}

func (g *group) lease(name string) leadership.Lease {
	holder, term := g.Leases.Holder(rolePrefix + name)
	return leadership.Lease{Holder: holder, Term: term}
}

func (g *group) perform(ctx actor.Context, effects []leadership.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case leadership.Acquire:
			g.startAttempt(ctx, e.Deployment, func(c context.Context) error {
				_, err := g.Leases.Acquire(c, rolePrefix+e.Deployment)
				return err
			})
		case leadership.Release:
			g.startAttempt(ctx, e.Deployment, func(c context.Context) error {
				return g.Leases.Release(c, rolePrefix+e.Deployment, e.Term)
			})
		case leadership.Start:
			g.spawn(ctx, e.Deployment, e.Term)
		case leadership.Stop:
			g.stop(ctx, e)
		case leadership.RetryAfter:
			supervise.After(ctx, e.Wait, &retryAcquire{g.incarnation})
		case leadership.Ignored:
			g.Log.Debug().Str("model", e.Deployment).Stringer("state", e.State).Stringer("event", e.Event).
				Msg("event ignored")
		default:
			panic(fmt.Sprintf("deployment: unknown effect %T", e))
		}
	}
}

func (g *group) startAttempt(ctx actor.Context, name string, do func(context.Context) error) {
	incarnation, rt := g.incarnation, supervise.RuntimeOf(ctx.ActorSystem())
	supervise.Job(ctx, g.lifetime,
		func(life context.Context) (struct{}, error) {
			c, cancel := rt.WithTimeout(life, leaseTimeout)
			defer cancel()
			return struct{}{}, do(c)
		},
		func(_ struct{}, err error) any { return &leaseAttempt{incarnation, name, err} })
}

func (g *group) onLeaseAttempt(ctx actor.Context, msg *leaseAttempt) {
	if msg.incarnation != g.incarnation {
		return
	}
	g.perform(ctx, g.leaderships.Answered(msg.name))
	if msg.err != nil { // syncLeases retries within a second
		g.Log.Debug().Err(msg.err).Str("model", msg.name).Msg("acquiring or releasing a lease failed")
		return
	}
	g.syncLeases(ctx)
}

func (g *group) onRetryAcquire(ctx actor.Context, msg *retryAcquire) {
	if msg.incarnation == g.incarnation {
		g.syncLeases(ctx)
	}
}

func (g *group) spawn(ctx actor.Context, name string, term uint64) {
	pid, err := ctx.SpawnNamed(g.Deployment(name, term), name)
	if err != nil {
		g.Log.Error().Err(err).Str("model", name).Msg("starting deployment failed")
		g.perform(ctx, g.leaderships.NotStarted(name))
		return
	}
	g.children[name] = pid
	g.Log.Info().Str("model", name).Uint64("term", term).Msg("deployment started")
}

func (g *group) stop(ctx actor.Context, e leadership.Stop) {
	if e.Why == leadership.LeaseLost {
		g.Log.Info().Str("model", e.Deployment).Str("holder", e.Holder).Msg("deployment moved to another node")
	}
	ctx.Stop(g.children[e.Deployment])
}

// onMembers forwards the members to the children and checks the leases.
func (g *group) onMembers(ctx actor.Context, msg *messages.MembersChanged) {
	for _, name := range slices.Sorted(maps.Keys(g.children)) {
		ctx.Send(g.children[name], msg)
	}
	g.syncLeases(ctx)
}

// onWakeModel passes the number of waiting requests to a deployment. If another node leads it by now,
// the router will repeat the message there.
func (g *group) onWakeModel(ctx actor.Context, msg *messages.WakeModel) {
	if child := g.children[msg.GetName()]; child != nil {
		ctx.Send(child, msg)
	}
}

// onPlacementRefused passes the planner's report to a deployment. If another node leads it by now, the
// planner repeats the report there.
func (g *group) onPlacementRefused(ctx actor.Context, msg *messages.PlacementRefused) {
	if child := g.children[msg.GetName()]; child != nil {
		ctx.Send(child, msg)
	}
}

// onRemoved handles a report that nothing is left of a deployment.
func (g *group) onRemoved(ctx actor.Context, msg *removed) {
	delete(g.dropped, msg.name)
	g.perform(ctx, g.leaderships.Removed(msg.name, msg.term, g.stored[msg.name] != nil))
}

// onTerminated handles a child that was stopped or crashed too often.
func (g *group) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	if g.ending {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g.children)) {
		if samePID(g.children[name], msg.GetWho()) {
			delete(g.children, name)
			g.perform(ctx, g.leaderships.Ended(name, g.lease(name), supervise.Now(ctx)))
		}
	}
	g.syncLeases(ctx)
}
