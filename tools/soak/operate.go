package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/cluster"
)

// changeTimeout bounds the time until the cluster reflects a control change.
const changeTimeout = time.Minute

// changes are made by the operator in turn, forever. Each leaves the cluster as before.
var changes = []struct {
	kind string
	do   func(context.Context, *client) error
}{
	{"change: scale up and down", scale},
	{"change: temporary adapter", temporaryAdapter},
	{"change: second model", secondModel},
	{"change: KV flush", func(ctx context.Context, c *client) error {
		return c.Call(ctx, "kv.flush", &messages.KvFlushRequest{}, &messages.KvFlushResponse{})
	}},
	{"change: replica restarted", restart},
	{"change: node drained", drain},
}

// operate makes the changes until ctx ends.
func (m *mix) operate(ctx context.Context) {
	c := newClient(m, nil)
	defer c.close()
	for i := 0; ; i++ {
		change := changes[i%len(changes)]
		within, cancel := context.WithTimeout(ctx, changeTimeout)
		err := change.do(within, c)
		cancel()
		if ctx.Err() != nil {
			return
		}
		m.count(change.kind, err)
		if pause(ctx, time.Second) != nil {
			return
		}
	}
}

// until retries a few times per second, which adds little to the load.
func until(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if pause(ctx, 250*time.Millisecond) != nil {
			return fmt.Errorf("timed out: %w", err)
		}
	}
}

// waitServing waits until a model has exactly the given number of replicas and all serve.
func (m *mix) waitServing(ctx context.Context, model string, replicas int) error {
	return until(ctx, func() error {
		d, err := m.Model(ctx, model)
		if err != nil {
			return err
		}
		n := 0
		for _, r := range d.GetReplicas() {
			if r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
				n++
			}
		}
		if n != replicas || len(d.GetReplicas()) != replicas {
			return fmt.Errorf("%s has %d replicas and %d serve; want %d", model, len(d.GetReplicas()), n, replicas)
		}
		return nil
	})
}

func scale(ctx context.Context, c *client) error {
	for _, n := range []int{3, 1, 2} {
		req := &messages.ScaleModelRequest{Name: cluster.ModelName, Replicas: new(uint32(n))}
		if err := c.Call(ctx, "models.scale", req, &messages.ScaleModelResponse{}); err != nil {
			return err
		}
		if err := c.waitServing(ctx, cluster.ModelName, n); err != nil {
			return err
		}
	}
	return nil
}

// temporaryAdapter registers an adapter, uses it on every node, and deletes it.
func temporaryAdapter(ctx context.Context, c *client) error {
	const name = "passing"
	req := &messages.RegisterAdapterRequest{AnyBase: true, Adapter: &messages.AdapterSpec{
		Name: name, Model: cluster.ModelName, Path: filepath.Join(testkit.Model(), "adapters", "psalms"),
	}}
	if err := c.Call(ctx, "adapters.register", req, &messages.RegisterAdapterResponse{}); err != nil {
		return err
	}
	if err := c.expectEverywhere(ctx, name, http.StatusOK); err != nil {
		return err
	}
	deletion := &messages.AdapterRequest{Name: name}
	if err := c.Call(ctx, "adapters.delete", deletion, &messages.AdapterResponse{}); err != nil {
		return err
	}
	return c.expectEverywhere(ctx, name, http.StatusNotFound)
}

// expectEverywhere waits until every node answers a completion with the given status.
func (c *client) expectEverywhere(ctx context.Context, model string, status int) error {
	for _, n := range c.Nodes {
		body := fmt.Sprintf(`{"model":%q,"prompt":"In the","max_tokens":4}`, model)
		if err := until(ctx, func() error { return c.expectFrom(ctx, n, completions, body, status) }); err != nil {
			return fmt.Errorf("%s on %s: %w", model, n.Name, err)
		}
	}
	return nil
}

// secondModel deploys another model, uses it, and deletes it.
func secondModel(ctx context.Context, c *client) error {
	spec := cluster.Spec(1)
	spec.Name = "second"
	deploy := &messages.DeployModelRequest{Deployment: spec}
	if err := c.change(ctx, "models.deploy", deploy, &messages.DeployModelResponse{}); err != nil {
		return err
	}
	if err := c.waitServing(ctx, spec.GetName(), 1); err != nil {
		return err
	}
	if err := c.expectEverywhere(ctx, spec.GetName(), http.StatusOK); err != nil {
		return err
	}
	deletion := &messages.DeleteModelRequest{Name: spec.GetName()}
	if err := c.change(ctx, "models.delete", deletion, &messages.DeleteModelResponse{}); err != nil {
		return err
	}
	return c.expectEverywhere(ctx, spec.GetName(), http.StatusNotFound)
}

// change retries a refused control request: the previous change may still be in progress.
func (m *mix) change(ctx context.Context, subject string, req, res proto.Message) error {
	return until(ctx, func() error { return m.Call(ctx, subject, req, res) })
}

func restart(ctx context.Context, c *client) error {
	names, err := c.ReplicaNames(ctx)
	if err != nil {
		return err
	}
	if err := c.RestartReplica(ctx, names[0]); err != nil {
		return err
	}
	return c.waitServing(ctx, cluster.ModelName, 2)
}

// drain drains and undrains the second node. The first node continues to serve.
func drain(ctx context.Context, c *client) error {
	name := c.Nodes[1].Name
	if err := c.Call(ctx, "nodes.drain", &messages.DrainNodeRequest{Name: name},
		&messages.DrainNodeResponse{}); err != nil {
		return err
	}
	err := until(ctx, func() error {
		d, err := c.Model(ctx, cluster.ModelName)
		if err != nil {
			return err
		}
		for _, r := range d.GetReplicas() {
			if r.GetNode() == name || r.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING {
				return fmt.Errorf("%s is %s on %s", r.GetName(), r.GetState(), r.GetNode())
			}
		}
		return nil
	})
	// Undrain in any case: the other changes need the node.
	back := &messages.UndrainNodeRequest{Name: name}
	if failed := c.change(ctx, "nodes.undrain", back, &messages.UndrainNodeResponse{}); err == nil {
		err = failed
	}
	return err
}
