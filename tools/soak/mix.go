package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"troupe/testkit/cluster"
)

// mix is the load of several clients and one operator on a cluster.
type mix struct {
	*cluster.Cluster
	*tally
	seed uint64
}

func newMix(c *cluster.Cluster, seed uint64) *mix {
	return &mix{Cluster: c, tally: newTally(), seed: seed}
}

// prepare deploys the model with one replica per node, and its adapters.
func (m *mix) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := m.WaitMembers(ctx); err != nil {
		return err
	}
	if err := m.Deploy(ctx, cluster.Spec(2)); err != nil {
		return err
	}
	return m.RegisterAdapters(ctx)
}

// start starts clients and operator, which end with ctx. It closes the channel when all have ended.
func (m *mix) start(ctx context.Context, clients int) <-chan struct{} {
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { m.client(ctx, rand.New(rand.NewPCG(m.seed, uint64(i)))) })
	}
	all.Go(func() { m.operate(ctx) })
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

// client sends one request after another.
func (m *mix) client(ctx context.Context, random *rand.Rand) {
	c := newClient(m, random)
	defer c.close()
	for ctx.Err() == nil {
		r := requests[random.IntN(len(requests))]
		err := r.send(ctx, c)
		if ctx.Err() != nil {
			return
		}
		m.count(r.kind, err)
		if err != nil {
			_ = pause(ctx, 100*time.Millisecond) // do not flood a node that refuses
		}
	}
}
