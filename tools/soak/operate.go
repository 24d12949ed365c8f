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

// changeWithin is how long a control change may take until the cluster is as it says.
const changeWithin = time.Minute

// changes are what the operator does in turn, for ever. Each leaves the cluster as it was.
var changes = []struct {
	kind string
	do   func(context.Context, *client) error
}{
	{"change: scale up and down", scale},
	{"change: adapter of its own", ownAdapter},
	{"change: second model", secondModel},
	{"change: KV flush", func(ctx context.Context, c *client) error {
		return c.Call(ctx, "kv.flush", &messages.KvFlushRequest{}, &messages.KvFlushResponse{})
	}},
	{"change: replica restarted", restart},
	{"change: node drained", drain},
}

// operate makes the changes, until ctx ends.
func (m *mix) operate(ctx context.Context) {
	c := newClient(m, nil)
	defer c.close()
	for i := 0; ; i++ {
		change := changes[i%len(changes)]
		within, cancel := context.WithTimeout(ctx, changeWithin)
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

// until polls a few times a second, which is not much beside the load.
func until(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if pause(ctx, 250*time.Millisecond) != nil {
			return fmt.Errorf("not in time: %w", err)
		}
	}
}

// serving waits until a model has so many replicas, no more and no fewer.
func (m *mix) serving(ctx context.Context, model string, replicas int) error {
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
		if err := c.serving(ctx, cluster.ModelName, n); err != nil {
			return err
		}
	}
	return nil
}

// ownAdapter registers an adapter, uses it on every node, and deletes it.
func ownAdapter(ctx context.Context, c *client) error {
	const name = "passing"
	req := &messages.RegisterAdapterRequest{AnyBase: true, Adapter: &messages.AdapterSpec{
		Name: name, Model: cluster.ModelName, Path: filepath.Join(testkit.Model(), "adapters", "psalms"),
	}}
	if err := c.Call(ctx, "adapters.register", req, &messages.RegisterAdapterResponse{}); err != nil {
		return err
	}
	if err := c.everywhere(ctx, name, http.StatusOK); err != nil {
		return err
	}
	deletion := &messages.AdapterRequest{Name: name}
	if err := c.Call(ctx, "adapters.delete", deletion, &messages.AdapterResponse{}); err != nil {
		return err
	}
	return c.everywhere(ctx, name, http.StatusNotFound)
}

// everywhere waits until every node answers a completion of a model with a status.
func (c *client) everywhere(ctx context.Context, model string, status int) error {
	for _, n := range c.Nodes {
		body := fmt.Sprintf(`{"model":%q,"prompt":"In the","max_tokens":4}`, model)
		if err := until(ctx, func() error { return c.expectOf(ctx, n, completions, body, status) }); err != nil {
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
	if err := c.serving(ctx, spec.GetName(), 1); err != nil {
		return err
	}
	if err := c.everywhere(ctx, spec.GetName(), http.StatusOK); err != nil {
		return err
	}
	deletion := &messages.DeleteModelRequest{Name: spec.GetName()}
	if err := c.change(ctx, "models.delete", deletion, &messages.DeleteModelResponse{}); err != nil {
		return err
	}
	return c.everywhere(ctx, spec.GetName(), http.StatusNotFound)
}

// change makes a control call again while it is refused: the change before may still be under way.
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
	return c.serving(ctx, cluster.ModelName, 2)
}

// drain empties the second node and takes it back. The first one goes on serving.
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
	// It is taken back in any case: the other changes need it.
	back := &messages.UndrainNodeRequest{Name: name}
	if failed := c.change(ctx, "nodes.undrain", back, &messages.UndrainNodeResponse{}); err == nil {
		err = failed
	}
	return err
}
