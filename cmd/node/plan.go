package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/observe/plan"
)

type planCommand struct {
	clusterClient
	Model   string `arg:"" optional:"" help:"${planmodel}"`
	Output  string `name:"output" short:"o" enum:"table,json" default:"table" help:"${reportoutput}"`
	History bool   `name:"history" help:"Show the last plans that changed something."`
	Number  uint64 `name:"number" placeholder:"N" help:"Show a plan of the history, by its number."`
	whatIfOptions
}

func (planCommand) Help() string {
	return `Shows what the planner would do now, and why. Nothing is done. The planner decides which replicas there are
and on which devices, for all models at once: every 10 s, and at once when requests wait, at a spike, or when a
replica or a device fails.

  HAS      replicas by this plan
  WANTS    replicas that it wants, and how urgently if some are missing: minimum, wake, SLO, headroom or batch
  LIMITS   min_replicas and max_replicas
  TTFT     P99 of the time to the first token; beside it the SLO
  TPOT     P99 of the time for each further token; beside it the SLO

Below are the replicas that leave (-) and start (+) with the reasons, the models that lack replicas, and those that
an operator holds or has pinned. A figure that is unknown is shown as -.

Examples:

  troupe plan                          what would change now
  troupe plan kjv                      why kjv has the replicas that it has, and where it could have more
  troupe plan --history                what changed
  troupe plan --number 12              plan 12 of the history
  troupe plan --what-if                simulate the next 10 minutes, with the present demand
  troupe plan --what-if --demand chat=2x --set chat.max_replicas=8 --for 30m
                                       with twice the requests, and another limit
  troupe plan -o json | jq '.models[] | select(.missing) | {name, unmet}'

--what-if reads the cluster once and simulates it on this machine: nothing is changed. What takes how long is known
from the profiles that troupe calibrate has measured on such devices; --costs names further ones. The output says
what was assumed.

To stop the decisions, or to leave one model as it is:

  nats req troupe.v1.planner.pause '{"why": "upgrade"}'
  nats req troupe.v1.planner.resume '{}'
  nats req troupe.v1.models.scale '{"name": "kjv", "replicas": 3, "hold": "1h"}'
  nats req troupe.v1.models.release '{"name": "kjv"}'`
}

// Run prints a plan, an explanation or the history.
func (p planCommand) Run(c console) error {
	if p.Model != "" && (p.History || p.Number > 0) || p.History && p.Number > 0 {
		return &usageError{errors.New("a model, --history and --number exclude each other; use one of them")}
	}
	if err := p.check(p.Model != "" || p.History || p.Number > 0); err != nil {
		return &usageError{err}
	}
	conn, err := p.connect("troupe plan")
	if err != nil {
		return err
	}
	defer conn.Close()
	if p.WhatIf {
		return p.simulate(c, p.Output, func(ctx context.Context, endpoint string, request, answer proto.Message) error {
			return p.request(ctx, conn, endpoint, request, answer)
		})
	}
	answer, text, err := p.ask(conn)
	if err != nil {
		return err
	}
	if p.Output == "json" {
		return printJSON(c.out, answer)
	}
	_, err = fmt.Fprint(c.out, text)
	return err
}

// ask returns the answer of the planner as a message and as text.
func (p planCommand) ask(conn *nats.Conn) (answer proto.Message, text string, err error) {
	ctx := context.Background()
	switch {
	case p.Model != "":
		res := &messages.ExplainModelResponse{}
		err = p.request(ctx, conn, "planner.explain", &messages.ExplainModelRequest{Name: p.Model}, res)
		return res.GetExplanation(), plan.Explanation(res.GetExplanation()), err
	case p.History:
		res := &messages.PlanHistoryResponse{}
		err = p.request(ctx, conn, "planner.history", &messages.PlanHistoryRequest{}, res)
		return res, plan.History(res.GetPlans()), err
	}
	status, res := &messages.GetPlannerResponse{}, &messages.PlanResponse{}
	if err = p.request(ctx, conn, "planner.get", &messages.GetPlannerRequest{}, status); err != nil {
		return nil, "", err
	}
	err = p.request(ctx, conn, "planner.plan", &messages.PlanRequest{Number: p.Number}, res)
	return res.GetPlan(), plan.Status(status.GetPlanner()) + "\n" + plan.Text(res.GetPlan()), err
}
