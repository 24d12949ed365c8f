package troupe

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/cluster/control"
	"troupe/cluster/store"
	"troupe/engine"
	"troupe/messages"
)

const (
	// askAgain is how long a query waits for its answer before it is asked again; twice as long each time. An actor that
	// crashes on a message, or is restarting, loses it.
	askAgain = 200 * time.Millisecond
	// askWithin is how long it is asked in all.
	askWithin = 10 * time.Second
)

// ask sends a query to an actor and waits for the answer.
func ask[T any](ctx context.Context, n *Node, id string, query proto.Message) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var got any
	for within := askAgain; ; within *= 2 {
		got, err = n.system.Root.RequestFuture(n.pid(id), query, within).Result()
		if !errors.Is(err, actor.ErrTimeout) {
			break
		}
		if ctx.Err() != nil {
			return answer, fmt.Errorf("%s does not answer: %w", id, ctx.Err())
		}
	}
	if err != nil {
		return answer, err
	}
	answer, ok := got.(T)
	if !ok {
		return answer, fmt.Errorf("%s answered %T with %T", id, query, got)
	}
	return answer, nil
}

// Deployment implements gateway.Directory and control.Backend.
func (n *Node) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	d, err := ask[*messages.DeploymentStatus](ctx, n, deploymentsID+"/"+name, &messages.GetDeployment{})
	if errors.Is(err, actor.ErrDeadLetter) || name == "" {
		known, _ := ask[*messages.ListDeploymentsResult](ctx, n, deploymentsID, &messages.ListDeployments{}) // for the hint
		return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("model %q is not deployed; there are: %s", name, strings.Join(known.GetNames(), ", ")))
	}
	return d, err
}

// Deployments implements gateway.Directory and control.Backend.
func (n *Node) Deployments(ctx context.Context) ([]*messages.DeploymentStatus, error) {
	known, err := ask[*messages.ListDeploymentsResult](ctx, n, deploymentsID, &messages.ListDeployments{})
	if err != nil {
		return nil, err
	}
	var all []*messages.DeploymentStatus
	for _, name := range known.GetNames() {
		d, err := n.Deployment(ctx, name)
		if err != nil {
			continue // deleted meanwhile
		}
		all = append(all, d)
	}
	return all, nil
}

// Gpus are the devices of this node.
func (n *Node) Gpus(ctx context.Context) ([]*messages.GpuStatus, error) {
	var all []*messages.GpuStatus
	for i := range n.devices {
		g, err := ask[*messages.GpuStatus](ctx, n, devicesID+"/"+gpuName(i), &messages.GetGpu{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", gpuName(i), err)
		}
		all = append(all, n.named(g))
	}
	return all, nil
}

// RestartReplica implements control.Backend.
func (n *Node) RestartReplica(ctx context.Context, name string) error {
	r, err := ask[*messages.RestartReplicaResult](ctx, n, replicasID, &messages.RestartReplica{Replica: name})
	if err != nil {
		return err
	}
	if refused := r.GetRefused(); refused != nil {
		return control.Refusal{Refused: refused}
	}
	return nil
}

// Tree implements control.Backend.
func (n *Node) Tree() []*messages.ActorNode { return n.registry.Snapshot() }

// Inspect implements control.Backend.
func (n *Node) Inspect(path string) error {
	_, err := n.inspect(path)
	return err
}

func (n *Node) inspect(path string) (engine.Facts, error) { return n.holders[0].Inspect(path) }

// PutDeployment implements control.Backend. The path is stored as an absolute one, so that it means the same after a restart.
func (n *Node) PutDeployment(ctx context.Context, spec *messages.DeploymentSpec, ifRevision uint64) (uint64, error) {
	path, err := filepath.Abs(spec.GetPath())
	if err != nil {
		return 0, err
	}
	spec.Path = path
	revision, err := n.store.Put(ctx, spec, ifRevision)
	if errors.Is(err, store.ErrConflict) {
		return 0, control.Refuse(messages.Reason_REASON_CONFLICT, err.Error())
	}
	if err == nil {
		n.events.Publish("model.deployed", spec.GetName(), fmt.Sprintf("revision %d, %d replicas of %s", revision, spec.GetReplicas(), path))
	}
	return revision, err
}

// apply stores a deployment of the configuration, unless it is stored like that already.
func (n *Node) apply(ctx context.Context, spec *messages.DeploymentSpec) error {
	path, err := filepath.Abs(spec.GetPath())
	if err != nil {
		return err
	}
	spec.Path = path
	if stored, _, err := n.store.Get(ctx, spec.GetName()); err == nil && proto.Equal(stored, spec) {
		return nil
	}
	_, err = n.PutDeployment(ctx, spec, 0)
	return err
}

// DeleteDeployment implements control.Backend.
func (n *Node) DeleteDeployment(ctx context.Context, name string) error {
	err := n.store.Delete(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return control.Refuse(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("model %q is not deployed", name))
	}
	if err == nil {
		n.events.Publish("model.deleted", name, "its replicas finish what they have")
	}
	return err
}
