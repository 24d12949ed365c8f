package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/messages"
)

const (
	acquireTimeout = 2 * time.Second
	viewTimeout    = 2 * time.Second
	surveyTimeout  = 500 * time.Millisecond
	storeTimeout   = 2 * time.Second
)

// ErrConflict is returned by Config.Assign if the deployment has another revision.
var ErrConflict = errors.New("the deployment has changed")

// Assigned is a change of a deployment's replicas that is to be stored.
type Assigned struct {
	Name     string
	Revision uint64 // that was planned
	Replicas uint32 // number to store
	core.Write
	Assignments *messages.Assignments
}

// acquired, viewed, surveyed, made and stored are messages to self.
type (
	acquired struct {
		incarnation uint64
		err         error
	}
	viewed struct {
		incarnation, round uint64
		began              time.Time
		view               *messages.ClusterView
		err                error
	}
	surveyed struct {
		incarnation, round uint64
		devices            []core.Device
		capacities         map[string][]float64 // by deployment; see capacitiesOf
		err                error
	}
	made struct {
		incarnation, round uint64
		result             core.Result
		err                error
	}
	stored struct {
		incarnation, round uint64
		revision           uint64
		err                error
	}
)

func (p *planner) acquire(ctx actor.Context) {
	incarnation, rt, acquire := p.incarnation, supervise.RuntimeOf(ctx.ActorSystem()), p.Acquire
	supervise.Job(ctx, p.lifetime,
		func(life context.Context) (struct{}, error) {
			c, cancel := rt.WithTimeout(life, acquireTimeout)
			defer cancel()
			return struct{}{}, acquire(c)
		},
		func(_ struct{}, err error) any { return &acquired{incarnation, err} })
}

func (p *planner) onAcquired(ctx actor.Context, msg *acquired) {
	if msg.incarnation != p.incarnation {
		return
	}
	if msg.err != nil {
		p.Log.Debug().Err(msg.err).Msg("acquiring the planner's lease failed")
	}
	p.perform(ctx, p.machine.Acquired(p.at(ctx)))
}

// collect requests the view of the router.
func (p *planner) collect(ctx actor.Context, e core.Observe) {
	incarnation, root, router := p.incarnation, ctx.ActorSystem().Root, p.Router
	began := supervise.Now(ctx)
	supervise.Job(ctx, p.lifetime,
		func(context.Context) (*messages.ClusterView, error) {
			return ask[*messages.ClusterView](root, router, &messages.GetClusterView{}, viewTimeout)
		},
		func(v *messages.ClusterView, err error) any { return &viewed{incarnation, e.Round, began, v, err} })
}

func (p *planner) onViewed(ctx actor.Context, msg *viewed) {
	if msg.incarnation != p.incarnation {
		return
	}
	var o *core.Observation
	if msg.err != nil {
		p.Log.Debug().Err(msg.err).Msg("router did not answer the planner")
	} else {
		stored := p.Stored()
		p.paths = make(map[string]string, len(stored))
		for _, d := range stored {
			p.paths[d.GetSpec().GetName()] = d.GetSpec().GetPath()
		}
		o = observationOf(stored, msg.view, p.Members(), supervise.Now(ctx))
		p.addAdapters(o, msg.view, supervise.Now(ctx))
		p.view = msg.view
	}
	p.viewTook = supervise.Now(ctx).Sub(msg.began)
	p.perform(ctx, p.machine.Viewed(msg.round, o, p.at(ctx)))
}

// makePlan starts a job that makes the plan.
func (p *planner) makePlan(ctx actor.Context, e core.MakePlan) {
	incarnation := p.incarnation
	supervise.Job(ctx, p.lifetime,
		func(context.Context) (core.Result, error) {
			r := core.Result{Plan: schedule.Make(e.Snapshot), Verdicts: make(map[string][]schedule.Verdict)}
			for _, model := range e.Explain {
				r.Verdicts[model] = schedule.Explain(e.Snapshot, model)
			}
			return r, nil
		},
		func(r core.Result, err error) any { return &made{incarnation, e.Round, r, err} })
}

func (p *planner) onMade(ctx actor.Context, msg *made) {
	if msg.incarnation != p.incarnation {
		return
	}
	if msg.err != nil { // it panicked: a bug in core/schedule must not stop what runs
		p.Log.Error().Err(msg.err).Msg("plan failed")
		p.perform(ctx, p.machine.Planned(msg.round, nil, p.at(ctx)))
		return
	}
	p.perform(ctx, p.machine.Planned(msg.round, &msg.result, p.at(ctx)))
}

// store stores the replicas of a deployment.
func (p *planner) store(ctx actor.Context, e core.Store) {
	incarnation, rt, assign := p.incarnation, supervise.RuntimeOf(ctx.ActorSystem()), p.Assign
	a := Assigned{e.Name, e.Revision, uint32(e.To), e.Write, assignmentsOf(e.Write)}
	supervise.Job(ctx, p.lifetime,
		func(life context.Context) (uint64, error) {
			c, cancel := rt.WithTimeout(life, storeTimeout)
			defer cancel()
			return assign(c, a)
		},
		func(revision uint64, err error) any { return &stored{incarnation, e.Round, revision, err} })
}

func (p *planner) onStored(ctx actor.Context, msg *stored) {
	if msg.incarnation != p.incarnation {
		return
	}
	outcome, failure := outcomeOf(msg.err)
	if msg.err != nil {
		p.Log.Debug().Err(msg.err).Stringer("outcome", outcome).Msg("planner write failed")
	}
	p.perform(ctx, p.machine.Stored(msg.round, outcome, msg.revision, failure, p.at(ctx)))
}

// outcomeOf returns how a write ended. Without an answer from the store, it may still be applied.
func outcomeOf(err error) (core.Outcome, string) {
	var reason interface{ GetReason() messages.Reason }
	switch {
	case err == nil:
		return core.Done, ""
	case errors.Is(err, ErrConflict):
		return core.Conflict, err.Error()
	case errors.As(err, &reason) && reason.GetReason() != messages.Reason_REASON_OUTCOME_UNKNOWN:
		return core.NotStored, err.Error()
	}
	return core.Unknown, err.Error()
}

// ask sends a query to an actor of any node and waits for the answer.
func ask[T any](root *actor.RootContext, to *actor.PID, query any, within time.Duration) (answer T, err error) {
	got, err := supervise.Request(root, to, query, within).Result()
	if err != nil {
		return answer, err
	}
	answer, ok := got.(T)
	if !ok {
		return answer, fmt.Errorf("%s answered %T with %T", to.GetId(), query, got)
	}
	return answer, nil
}
