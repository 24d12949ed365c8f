package identity_test

import (
	"context"
	"errors"
	"fmt"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// finish asks each model for all its answers once more, with the others parked, and then parks all. At
// the end nothing is left on the devices.
func (g *group) finish(ctx context.Context, byModel [][]question) {
	g.t.Helper()
	for i, own := range byModel {
		for j, m := range g.all {
			if i != j {
				g.must(g.leave(ctx, m))
			}
		}
		if i%2 == 1 {
			g.must(cluster.Until(ctx, func() error {
				req := &messages.ActivateModelRequest{Name: own[0].Model}
				return g.Call(ctx, "models.activate", req, &messages.ActivateModelResponse{})
			}))
		}
		l := cluster.Load{Streams: 1, Gateways: g.Nodes}
		for _, q := range own {
			l.Requests, l.Answers = append(l.Requests, q.Request), append(l.Answers, q.answer)
		}
		if report := l.Start(ctx).Finish(); report.Streams != len(own) {
			g.t.Errorf("%s in the end: %v", own[0].Model, report.Err())
		}
	}
	for _, m := range g.all {
		g.must(g.leave(ctx, m))
	}
	g.must(cluster.Until(ctx, func() error { return g.empty(ctx) }))
}

// leave parks a model that has replicas, and waits until it has none.
func (g *group) leave(ctx context.Context, m model) error {
	return cluster.Until(ctx, func() error {
		d, err := g.Model(ctx, m.name)
		if err != nil {
			return err
		}
		if d.GetSpec().GetReplicas() > 0 && d.GetSpec().GetLevel() != messages.Level_LEVEL_PARKED {
			req := &messages.ParkModelRequest{Name: m.name}
			if err := g.Call(ctx, "models.park", req, &messages.ParkModelResponse{}); err != nil {
				return err
			}
		}
		if len(d.GetReplicas()) > 0 {
			return fmt.Errorf("%s still has %s", m.name, d.GetReplicas()[0].GetName())
		}
		return nil
	})
}

// empty returns an error unless the devices have nothing but weights of models that sleep, and the host
// caches nothing that is in use.
func (g *group) empty(ctx context.Context) (found error) {
	res := &messages.ListNodesResponse{}
	if err := g.Call(ctx, "nodes.list", &messages.ListNodesRequest{}, res); err != nil {
		return err
	}
	for _, n := range res.GetNodes() {
		for _, gpu := range n.GetGpus() {
			name, free := n.GetMember().GetName()+"/"+gpu.GetName(), gpu.GetFreeBytes()
			for _, l := range gpu.GetLeases() {
				if free += l.GetBytes(); l.GetKind() != "weights" {
					found = errors.Join(found, fmt.Errorf("%s: %s has %d bytes of %s", name, l.GetOwner(),
						l.GetBytes(), l.GetKind()))
				}
			}
			if free != gpu.GetMemoryBytes() || len(gpu.GetBudget().GetReplicas()) > 0 {
				found = errors.Join(found, fmt.Errorf("%s: %v", name, gpu))
			}
		}
		if c := n.GetHostCache(); c.GetInUseBytes() > 0 || c.GetUsedBytes() > c.GetBudgetBytes() {
			found = errors.Join(found, fmt.Errorf("%s: %v", n.GetMember().GetName(), c))
		}
	}
	return found
}
