package control

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/messages"
)

// maxPauseText is the longest reason of a pause, in bytes.
const maxPauseText = 1000

func (c *control) plannerEndpoints(life context.Context) []Endpoint {
	return []Endpoint{
		serve(c, life, "planner-get", "planner.get", "the planner that leads, and its last plan", c.getPlanner),
		serve(c, life, "planner-plan", "planner.plan",
			`what the planner would do now, and why; nothing is done. {"number": 3} shows a plan that was made`,
			c.plan),
		serve(c, life, "planner-explain", "planner.explain",
			`why a model has the replicas that it has: {"name": "kjv"}`, c.explainModel),
		serve(c, life, "planner-pause", "planner.pause",
			`stop the decisions of the planner, not what is assigned: {"why": "upgrade"}`, c.pausePlanner),
		serve(c, life, "planner-resume", "planner.resume", "let the planner decide again", c.resumePlanner),
		serve(c, life, "planner-history", "planner.history",
			`the last plans that changed something: {"limit": 5}`, c.planHistory),
	}
}

func (c *control) getPlanner(ctx context.Context, _ *messages.GetPlannerRequest) (*messages.GetPlannerResponse,
	error) {
	status, err := c.Backend.Planner(ctx)
	return &messages.GetPlannerResponse{Planner: status}, err
}

// plan returns a plan that is made now, or one of the history.
func (c *control) plan(ctx context.Context, req *messages.PlanRequest) (*messages.PlanResponse, error) {
	report, err := c.Backend.Plan(ctx, &messages.GetPlan{
		RequestId: supervise.OrSystem(c.Runtime).ID(), Now: req.GetNumber() == 0, Number: req.GetNumber(),
		Snapshot: req.GetSnapshot(),
	})
	return &messages.PlanResponse{Plan: report}, err
}

func (c *control) explainModel(ctx context.Context, req *messages.ExplainModelRequest) (
	*messages.ExplainModelResponse, error) {
	if err := requireName(req); err != nil {
		return nil, err
	}
	all, err := c.Backend.ExplainModel(ctx, &messages.ExplainModel{
		RequestId: supervise.OrSystem(c.Runtime).ID(), Model: req.GetName(),
	})
	return &messages.ExplainModelResponse{Explanation: all}, err
}

func (c *control) planHistory(ctx context.Context, req *messages.PlanHistoryRequest) (
	*messages.PlanHistoryResponse, error) {
	all, err := c.Backend.PlanHistory(ctx, &messages.GetPlanHistory{
		RequestId: supervise.OrSystem(c.Runtime).ID(), Limit: req.GetLimit(),
	})
	return &messages.PlanHistoryResponse{Plans: all.GetPlans(), Kept: all.GetKept()}, err
}

func (c *control) pausePlanner(ctx context.Context, req *messages.PausePlannerRequest) (
	*messages.PausePlannerResponse, error) {
	if n := len(req.GetWhy()); n > maxPauseText {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			fmt.Sprintf("why has %d bytes; at most %d are allowed", n, maxPauseText))
	}
	pause := &messages.PlannerPause{
		Paused: true, By: callerOf(ctx), Why: req.GetWhy(), At: timestamppb.New(supervise.OrSystem(c.Runtime).Now()),
	}
	_, err := c.Backend.PausePlanner(ctx, pause)
	return &messages.PausePlannerResponse{Pause: pause}, err
}

func (c *control) resumePlanner(ctx context.Context, _ *messages.ResumePlannerRequest) (
	*messages.ResumePlannerResponse, error) {
	before, err := c.Backend.PausePlanner(ctx, &messages.PlannerPause{
		By: callerOf(ctx), At: timestamppb.New(supervise.OrSystem(c.Runtime).Now()),
	})
	if !before.GetPaused() {
		before = nil
	}
	return &messages.ResumePlannerResponse{Ended: before}, err
}
