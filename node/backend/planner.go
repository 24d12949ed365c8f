package backend

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/control"
	"troupe/messages"
	"troupe/node/query"
)

const (
	// plannerRetry is the first time after which a query to a planner is sent again. A plan of a large pool
	// takes about a second.
	plannerRetry = 2 * time.Second
	plannerMost  = 4 * time.Second
)

// PauseStore is the part of the store that has whether the planner is paused.
type PauseStore interface {
	PutPlannerPause(ctx context.Context, pause *messages.PlannerPause) error
	PlannerPause(ctx context.Context) (*messages.PlannerPause, error)
}

// PlannerControl implements control.PlannerBackend. Any node asks the planner of the node that leads.
type PlannerControl struct {
	System *actor.ActorSystem
	// Leader returns the node whose planner leads, as far as this node knows.
	Leader  func() (leader *messages.Member, known bool)
	Store   PauseStore
	Publish func(kind, subject, detail string)
}

// Planner implements control.PlannerBackend.
func (p *PlannerControl) Planner(ctx context.Context) (*messages.PlannerStatus, error) {
	at := query.Local(p.System, query.Planner)
	if leader, known := p.Leader(); known {
		at = actor.NewPID(leader.GetAddress(), query.Planner)
	}
	return query.At[*messages.PlannerStatus](ctx, p.System, at, &messages.GetPlanner{})
}

// Plan implements control.PlannerBackend.
func (p *PlannerControl) Plan(ctx context.Context, req *messages.GetPlan) (*messages.PlanReport, error) {
	return askLeader[*messages.PlanReport](ctx, p, req)
}

// ExplainModel implements control.PlannerBackend.
func (p *PlannerControl) ExplainModel(ctx context.Context, req *messages.ExplainModel) (*messages.ModelExplanation,
	error) {
	return askLeader[*messages.ModelExplanation](ctx, p, req)
}

// PlanHistory implements control.PlannerBackend.
func (p *PlannerControl) PlanHistory(ctx context.Context, req *messages.GetPlanHistory) (*messages.PlanHistory,
	error) {
	return askLeader[*messages.PlanHistory](ctx, p, req)
}

// askLeader sends a query to the planner that leads. While another node takes over, it asks again.
func askLeader[T any](ctx context.Context, p *PlannerControl, req proto.Message) (T, error) {
	return query.RetryStale(ctx, supervise.RuntimeOf(p.System), func() (none T, err error) {
		leader, known := p.Leader()
		if !known {
			return none, control.Refuse(messages.Reason_REASON_NOT_READY,
				"no node leads the planner; another takes over within seconds, so repeat the request")
		}
		at := actor.NewPID(leader.GetAddress(), query.Planner)
		return query.Within[T](ctx, p.System, at, req, plannerRetry, plannerMost)
	})
}

// PausePlanner implements control.PlannerBackend. The node that leads follows the store.
func (p *PlannerControl) PausePlanner(ctx context.Context, pause *messages.PlannerPause) (
	before *messages.PlannerPause, err error) {
	if before, err = p.Store.PlannerPause(ctx); err != nil {
		return nil, err
	}
	if err := p.Store.PutPlannerPause(ctx, pause); err != nil {
		return nil, err
	}
	switch {
	case pause.GetPaused():
		p.Publish("planner.paused", pause.GetBy(), pause.GetWhy())
	case before.GetPaused():
		p.Publish("planner.resumed", pause.GetBy(), "")
	}
	return before, nil
}
