package backend

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"troupe/control"
	"troupe/messages"
	"troupe/node/query"
)

// pauses is a store of pauses.
type pauses struct{ stored *messages.PlannerPause }

func (p *pauses) PutPlannerPause(_ context.Context, pause *messages.PlannerPause) error {
	p.stored = pause
	return nil
}

func (p *pauses) PlannerPause(context.Context) (*messages.PlannerPause, error) { return p.stored, nil }

// TestPlannerAsksLeader checks that queries go to the planner of the node that leads, that another one is asked
// when the leader changes meanwhile, and that without a leader only the state of this node's planner is known.
func TestPlannerAsksLeader(t *testing.T) {
	here := system(t, map[string]func(any) proto.Message{query.Planner: func(asked any) proto.Message {
		switch asked := asked.(type) {
		case *messages.GetPlanner:
			return &messages.PlannerStatus{Node: "a"}
		case *messages.GetPlan:
			return &messages.PlanReport{RequestId: asked.GetRequestId(), Number: 7}
		case *messages.ExplainModel:
			return &messages.ModelExplanation{Model: &messages.ModelPlan{Name: asked.GetModel()}}
		case *messages.GetPlanHistory:
			return &messages.PlanHistory{Kept: 9}
		}
		return nil
	}})
	known, asks := false, 0
	p := &PlannerControl{System: here, Leader: func() (*messages.Member, bool) {
		asks++
		return &messages.Member{Name: "a", Address: here.Address()}, known
	}}
	_, err := p.Plan(t.Context(), &messages.GetPlan{})
	var refused control.Refusal
	if !errors.As(err, &refused) || refused.GetReason() != messages.Reason_REASON_NOT_READY || asks < 2 {
		t.Errorf("without a leader: %v after %d tries", err, asks)
	}
	if s, err := p.Planner(t.Context()); err != nil || s.GetNode() != "a" {
		t.Errorf("without a leader: %v, %v", s, err)
	}
	known = true
	if r, err := p.Plan(t.Context(), &messages.GetPlan{RequestId: "r"}); err != nil || r.GetRequestId() != "r" {
		t.Errorf("%v, %v", r, err)
	}
	if e, err := p.ExplainModel(t.Context(), &messages.ExplainModel{Model: "m"}); err != nil ||
		e.GetModel().GetName() != "m" {
		t.Errorf("%v, %v", e, err)
	}
	if h, err := p.PlanHistory(t.Context(), &messages.GetPlanHistory{}); err != nil || h.GetKept() != 9 {
		t.Errorf("%v, %v", h, err)
	}
}

// TestPausePlanner checks that a pause and its end are stored and published, and that ending none is not
// published.
func TestPausePlanner(t *testing.T) {
	var published []string
	store := &pauses{stored: &messages.PlannerPause{}}
	p := &PlannerControl{Store: store, Publish: func(kind, subject, detail string) {
		published = append(published, kind+" "+subject+" "+detail)
	}}
	for _, step := range []struct {
		pause  *messages.PlannerPause
		before bool
		event  string
	}{
		{&messages.PlannerPause{Paused: true, By: "ops", Why: "upgrade"}, false, "planner.paused ops upgrade"},
		{&messages.PlannerPause{By: "ops"}, true, "planner.resumed ops "},
		{&messages.PlannerPause{By: "ops"}, false, ""},
	} {
		published = nil
		before, err := p.PausePlanner(t.Context(), step.pause)
		if err != nil || before.GetPaused() != step.before || store.stored != step.pause {
			t.Errorf("%v: before %v, %v", step.pause, before, err)
		}
		if step.event == "" != (published == nil) || step.event != "" && published[0] != step.event {
			t.Errorf("%v: published %q", step.pause, published)
		}
	}
}
