package identity_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// group is a cluster with models of which only some fit its devices.
type group struct {
	*cluster.Cluster
	t        *testing.T
	random   *rand.Rand
	active   []model // with a replica, or with one in preparation
	inactive []model
	switches int
	kills    int
}

// deploy deploys all models and waits until as many serve as fit. It takes off the others.
func (g *group) deploy(ctx context.Context, all []model, fit int) {
	g.t.Helper()
	for _, m := range all {
		spec := &messages.DeploymentSpec{Name: m.name, Path: m.path, Replicas: new(uint32(1)),
			MaxSequences: new(uint32(maxSequences))}
		g.must(cluster.Until(ctx, func() error {
			return g.Call(ctx, "models.deploy", &messages.DeployModelRequest{Deployment: spec},
				&messages.DeployModelResponse{})
		}))
	}
	g.must(cluster.Until(ctx, func() error {
		g.active, g.inactive = nil, nil
		for _, m := range all {
			d, err := g.Model(ctx, m.name)
			switch {
			case err != nil:
				return err
			case d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY:
				g.active = append(g.active, m)
			case d.GetFailure().GetReason() == messages.Reason_REASON_NO_MEMORY:
				g.inactive = append(g.inactive, m)
			default:
				return fmt.Errorf("%s is %s: %s", m.name, d.GetState(), d.GetDetail())
			}
		}
		return nil
	}))
	if len(g.active) != fit {
		g.t.Fatalf("%d of %d models serve, want %d", len(g.active), len(all), fit)
	}
	for _, m := range g.inactive {
		g.must(g.scale(ctx, m, 0))
	}
}

func (g *group) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// scale sets the number of replicas. It repeats the request while a node is being killed.
func (g *group) scale(ctx context.Context, m model, replicas int) error {
	return cluster.Until(ctx, func() error {
		return g.Call(ctx, "models.scale", &messages.ScaleModelRequest{Name: m.name, Replicas: new(uint32(replicas))},
			&messages.ScaleModelResponse{})
	})
}

// stop takes a model off its device, once its streams have ended.
func (g *group) stop(ctx context.Context, m model) error {
	if err := g.scale(ctx, m, 0); err != nil {
		return err
	}
	return cluster.Until(ctx, func() error {
		d, err := g.Model(ctx, m.name)
		if err == nil && len(d.GetReplicas()) > 0 {
			err = fmt.Errorf("%s still has %s", m.name, d.GetReplicas()[0].GetName())
		}
		return err
	})
}

// exchange takes a random model off the devices, and brings in another one.
func (g *group) exchange(ctx context.Context) error {
	out, in := g.random.IntN(len(g.active)), g.random.IntN(len(g.inactive))
	if err := g.stop(ctx, g.active[out]); err != nil {
		return err
	}
	if err := g.scale(ctx, g.inactive[in], 1); err != nil {
		return err
	}
	g.active[out], g.inactive[in] = g.inactive[in], g.active[out]
	g.switches++
	return nil
}

// disturb exchanges models every interval, and kills a random node every killEvery, until length is
// over.
func (g *group) disturb(ctx context.Context, length, interval, killEvery time.Duration) error {
	began, nextKill := time.Now(), killEvery
	for turn := 1; time.Since(began) < length; turn++ {
		if err := g.exchange(ctx); err != nil {
			return err
		}
		if killEvery > 0 && time.Since(began) >= nextKill {
			nextKill += killEvery
			if err := g.kill(ctx); err != nil {
				return err
			}
		}
		if wait := time.Until(began.Add(time.Duration(turn) * interval)); wait > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
		}
	}
	return nil
}

// kill kills a random node, exchanges models without it, and starts it again.
func (g *group) kill(ctx context.Context) error {
	g.kills++
	node := g.Nodes[g.random.IntN(len(g.Nodes))]
	restart, err := g.Inject(ctx, cluster.Fault{Kind: cluster.Kill, On: node.Name})
	if err != nil {
		return err
	}
	if err := g.exchange(ctx); err != nil {
		return err
	}
	return restart(ctx)
}

// served returns the models with a replica on each device.
func (g *group) served(ctx context.Context) (map[string][]string, error) {
	res := &messages.ListGpusResponse{}
	if err := g.Call(ctx, "gpus.list", &messages.ListGpusRequest{}, res); err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, gpu := range res.GetGpus() {
		for _, w := range gpu.GetWeights() {
			if len(w.GetUsers()) > 0 {
				all[gpu.GetNode()+"/"+gpu.GetName()] = append(all[gpu.GetNode()+"/"+gpu.GetName()], w.GetModel())
			}
		}
	}
	return all, nil
}

// finish brings each model in once more and requests all its answers.
func (g *group) finish(ctx context.Context, byModel [][]question) {
	g.t.Helper()
	for _, own := range byModel {
		name := own[0].Model
		if i := slices.IndexFunc(g.inactive, func(m model) bool { return m.name == name }); i >= 0 {
			g.must(g.stop(ctx, g.active[0]))
			g.must(g.scale(ctx, g.inactive[i], 1))
			g.active[0], g.inactive[i] = g.inactive[i], g.active[0]
			g.active = append(g.active[1:], g.active[0])
		}
		g.must(g.WaitReady(ctx, name))
		l := cluster.Load{Streams: 1, Gateways: g.Nodes}
		for _, q := range own {
			l.Requests, l.Answers = append(l.Requests, q.Request), append(l.Answers, q.answer)
		}
		if report := l.Start(ctx).Finish(); report.Streams != len(own) {
			g.t.Errorf("%s in the end: %v", name, report.Err())
		}
	}
	held, err := g.served(ctx)
	g.must(err)
	for gpu, models := range held {
		if len(models) > perDevice {
			g.t.Errorf("%s holds %s", gpu, strings.Join(models, ", "))
		}
	}
}
