package control

import (
	"context"
	"strings"
	"testing"

	"troupe/messages"
)

// plannerOf is a backend that records what the planner was asked.
type plannerOf struct {
	Backend
	paused *messages.PlannerPause
	plan   *messages.GetPlan
}

func (b *plannerOf) Planner(context.Context) (*messages.PlannerStatus, error) {
	return &messages.PlannerStatus{Node: "a", Leads: true}, nil
}

func (b *plannerOf) Plan(_ context.Context, req *messages.GetPlan) (*messages.PlanReport, error) {
	b.plan = req
	return &messages.PlanReport{RequestId: req.GetRequestId()}, nil
}

func (b *plannerOf) ExplainModel(_ context.Context, req *messages.ExplainModel) (*messages.ModelExplanation, error) {
	return &messages.ModelExplanation{Model: &messages.ModelPlan{Name: req.GetModel()}}, nil
}

func (b *plannerOf) PlanHistory(_ context.Context, req *messages.GetPlanHistory) (*messages.PlanHistory, error) {
	return &messages.PlanHistory{Plans: make([]*messages.PlanReport, req.GetLimit()), Kept: 50}, nil
}

func (b *plannerOf) PausePlanner(_ context.Context, pause *messages.PlannerPause) (*messages.PlannerPause, error) {
	before := b.paused
	b.paused = pause
	return before, nil
}

// TestPlannerRequests checks what each request about the planner asks for and answers.
func TestPlannerRequests(t *testing.T) {
	b := &plannerOf{}
	c, ctx := &control{Config: Config{Backend: b}}, withCaller(t.Context(), "ops")
	if res, err := c.getPlanner(ctx, &messages.GetPlannerRequest{}); err != nil || !res.GetPlanner().GetLeads() {
		t.Errorf("get: %v, %v", res, err)
	}
	res, err := c.plan(ctx, &messages.PlanRequest{Snapshot: true})
	if err != nil || !b.plan.GetNow() || !b.plan.GetSnapshot() || b.plan.GetRequestId() == "" ||
		res.GetPlan().GetRequestId() != b.plan.GetRequestId() {
		t.Errorf("plan: %v, %v", b.plan, err)
	}
	if _, err := c.plan(ctx, &messages.PlanRequest{Number: 3}); err != nil || b.plan.GetNow() ||
		b.plan.GetNumber() != 3 {
		t.Errorf("plan 3: %v, %v", b.plan, err)
	}
	if _, err := c.explainModel(ctx, &messages.ExplainModelRequest{}); err == nil ||
		!strings.HasPrefix(err.Error(), "name is missing") {
		t.Errorf("explain nothing: %v", err)
	}
	explained, err := c.explainModel(ctx, &messages.ExplainModelRequest{Name: "m"})
	if err != nil || explained.GetExplanation().GetModel().GetName() != "m" {
		t.Errorf("explain: %v, %v", explained, err)
	}
	history, err := c.planHistory(ctx, &messages.PlanHistoryRequest{Limit: 2})
	if err != nil || len(history.GetPlans()) != 2 || history.GetKept() != 50 {
		t.Errorf("history: %v, %v", history, err)
	}
}

// TestPauseNamesCaller checks that a pause has its author and reason, and what its end answers.
func TestPauseNamesCaller(t *testing.T) {
	b := &plannerOf{}
	c, ctx := &control{Config: Config{Backend: b}}, withCaller(t.Context(), "ops")
	if res, err := c.resumePlanner(ctx, &messages.ResumePlannerRequest{}); err != nil || res.Ended != nil {
		t.Errorf("no pause to end: %v, %v", res, err)
	}
	paused, err := c.pausePlanner(ctx, &messages.PausePlannerRequest{Why: "upgrade"})
	if p := paused.GetPause(); err != nil || !b.paused.GetPaused() || p.GetBy() != "ops" || p.GetWhy() != "upgrade" ||
		p.GetAt() == nil {
		t.Errorf("%v, %v", paused, err)
	}
	res, err := c.resumePlanner(ctx, &messages.ResumePlannerRequest{})
	if err != nil || b.paused.GetPaused() || res.GetEnded().GetWhy() != "upgrade" {
		t.Errorf("%v, %v", res, err)
	}
	long := &messages.PausePlannerRequest{Why: strings.Repeat("x", maxPauseText+1)}
	if _, err := c.pausePlanner(ctx, long); err == nil {
		t.Error("a long reason is accepted")
	}
}
