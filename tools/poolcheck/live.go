package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"troupe/messages"
	"troupe/testkit/cluster"
)

const (
	nodes        = 3
	device       = "host:1x64MiBx1"
	kind         = "h200" // of simulated devices
	startTimeout = time.Minute
	timeout      = 2 * time.Minute // of a request
	downtime     = 15 * time.Second
)

// live is what a cluster of processes did with the load.
type live struct {
	asked     []asked
	played    []cluster.Played
	decisions []decision
	leader    string        // that was killed
	killed    time.Duration // when
	away      time.Duration // until its process served again
	replanned time.Duration // from the kill to the first plan of another leader
	devices   []*messages.GpuStatus
}

// decision is a replica that the planner placed or withdrew.
type decision struct {
	at             time.Duration
	model, replica string
	withdrawn      bool
	why            string
}

// startCluster starts the nodes and deploys the models.
func startCluster(ctx context.Context, dir string, all []*model) (*cluster.Cluster, error) {
	c, err := cluster.New(ctx, cluster.Config{Dir: dir, Nodes: nodes, NATS: cluster.External, Devices: device,
		Flags: []string{"--simulated-devices", "1x" + kind}})
	if err != nil {
		return nil, err
	}
	start := func() error {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		if err := c.WaitMembers(ctx); err != nil {
			return err
		}
		for _, m := range all {
			err := cluster.Until(ctx, func() error {
				req := &messages.DeployModelRequest{Deployment: m.spec()}
				return c.Call(ctx, "models.deploy", req, &messages.DeployModelResponse{})
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := start(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// record records the answers of an undisturbed cluster to all questions of the models.
func record(ctx context.Context, c *cluster.Cluster, all []*model, questions map[*model][]question) error {
	for _, m := range all {
		var requests []cluster.Request
		for _, q := range questions[m] {
			requests = append(requests, q.Request)
		}
		answers, err := c.Answers(ctx, requests)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		for i := range answers {
			questions[m][i].answer = answers[i]
		}
	}
	return nil
}

// settle waits until the models that sleep without requests do so.
func settle(ctx context.Context, c *cluster.Cluster, all []*model) error {
	ctx, cancel := context.WithTimeout(ctx, 2*idle+startTimeout)
	defer cancel()
	return cluster.Until(ctx, func() error {
		for _, m := range all {
			d, err := c.Model(ctx, m.name)
			if err != nil {
				return err
			}
			if n := len(d.GetReplicas()); n != m.min {
				return fmt.Errorf("%s has %d replicas instead of %d", m.name, n, m.min)
			}
		}
		return nil
	})
}

// playLoad plays the load and kills the leader of the planner in the middle.
func playLoad(ctx context.Context, c *cluster.Cluster, load []asked, length time.Duration) (*live, error) {
	r := &live{asked: load}
	gpus := &messages.ListGpusResponse{}
	if err := c.Call(ctx, "gpus.list", &messages.ListGpusRequest{}, gpus); err != nil {
		return nil, err
	}
	r.devices = gpus.GetGpus()
	timed := make([]cluster.Timed, len(load))
	for i, a := range load {
		timed[i] = cluster.Timed{At: a.at, Request: a.Request, Answer: a.answer}
	}
	began, failed := time.Now(), make(chan error, 1)
	go func() { failed <- r.killLeader(ctx, c, began, length/2) }()
	r.played = cluster.Play(ctx, c.Nodes, timed)
	if err := <-failed; err != nil {
		return nil, err
	}
	return r, r.collect(ctx, c, began)
}

// killLeader kills the node whose planner leads, and starts it again.
func (r *live) killLeader(ctx context.Context, c *cluster.Cluster, began time.Time, at time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(began.Add(at))):
	}
	if err := r.collect(ctx, c, began); err != nil {
		return err
	}
	leader := &messages.GetPlannerResponse{}
	if err := c.Call(ctx, "planner.get", &messages.GetPlannerRequest{}, leader); err != nil {
		return err
	}
	r.leader = leader.GetPlanner().GetLeader()
	n := c.Node(r.leader)
	if n == nil {
		return fmt.Errorf("the planner of %q leads, which is no node", r.leader)
	}
	r.killed = time.Since(began)
	if err := n.Process().Kill(); err != nil {
		return err
	}
	say("%v: killed %s, whose planner leads", r.killed.Round(time.Second), r.leader)
	term := leader.GetPlanner().GetTerm()
	err := cluster.Until(ctx, func() error {
		now := &messages.GetPlannerResponse{}
		if err := c.Call(ctx, "planner.get", &messages.GetPlannerRequest{}, now); err != nil {
			return err
		}
		if p := now.GetPlanner(); p.GetTerm() <= term || p.GetPlans() == 0 {
			return fmt.Errorf("term %d, %d plans", p.GetTerm(), p.GetPlans())
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.replanned = time.Since(began) - r.killed
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(downtime - r.replanned):
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	r.away = time.Since(began) - r.killed
	return nil
}

// collect adds the decisions that the leader remembers.
func (r *live) collect(ctx context.Context, c *cluster.Cluster, began time.Time) error {
	history := &messages.PlanHistoryResponse{}
	if err := c.Call(ctx, "planner.history", &messages.PlanHistoryRequest{}, history); err != nil {
		return err
	}
	for _, p := range history.GetPlans() {
		at := p.GetAt().AsTime().Sub(began)
		if at < 0 {
			continue
		}
		for _, a := range p.GetReplicas() {
			if a.GetNew() {
				r.decisions = append(r.decisions, decision{at, a.GetModel(), a.GetName(), false, a.GetWhy()})
			}
		}
		for _, d := range p.GetDepartures() {
			r.decisions = append(r.decisions, decision{at, d.GetModel(), d.GetName(), true, d.GetWhy()})
		}
	}
	slices.SortStableFunc(r.decisions, func(a, b decision) int { return int(a.at - b.at) })
	r.decisions = slices.CompactFunc(r.decisions, func(a, b decision) bool {
		return a.replica == b.replica && a.withdrawn == b.withdrawn && b.at-a.at < time.Minute && a.why == b.why
	})
	return nil
}
