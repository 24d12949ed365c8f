package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/engine"
	"troupe/messages"
	"troupe/modelfile/chat"
	"troupe/modelfile/tokenizer"
)

const (
	// queryRetry is the time after which an unanswered query is sent again; it doubles each time.
	// An actor that crashes on a message or is restarting loses it.
	queryRetry = 200 * time.Millisecond
	// queryTimeout is how long a query is retried in total.
	queryTimeout = 10 * time.Second
)

// ask sends a query to an actor of this node and waits for the answer.
func ask[T any](ctx context.Context, n *Node, id string, query proto.Message) (T, error) {
	return askAt[T](ctx, n, n.pid(id), query)
}

// askAt sends a query to an actor anywhere and waits for the answer.
func askAt[T any](ctx context.Context, n *Node, to *actor.PID, query proto.Message) (answer T, err error) {
	return askFor[T](ctx, n, to, query, queryRetry, queryTimeout)
}

// askFor is like askAt, but first retries after first and gives up after most.
func askFor[T any](ctx context.Context, n *Node, to *actor.PID, query proto.Message,
	first, most time.Duration) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var got any
	for within := first; ; within *= 2 {
		got, err = n.system.Root.RequestFuture(to, query, within).Result()
		if !errors.Is(err, actor.ErrTimeout) {
			break
		}
		if ctx.Err() != nil {
			return answer, fmt.Errorf("%s at %s does not answer: %w", to.GetId(), to.GetAddress(), ctx.Err())
		}
	}
	if errors.Is(err, actor.ErrDeadLetter) && to.GetAddress() != n.system.Address() {
		return answer, control.Refuse(messages.Reason_REASON_NODE_LOST,
			fmt.Sprintf("%s: its node at %s has left the cluster", to.GetId(), to.GetAddress()))
	}
	if err != nil {
		return answer, err
	}
	if refused, ok := got.(*messages.Refused); ok {
		return answer, control.Refusal{Refused: refused}
	}
	answer, ok := got.(T)
	if !ok {
		return answer, fmt.Errorf("%s answered %T with %T", to.GetId(), query, got)
	}
	return answer, nil
}

// directory is the gateway's view of the deployments.
type directory struct{ *Node }

// Deployment implements gateway.Directory. It asks the router only for a deployment that this node
// does not have in its cache.
func (d directory) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	if stored := d.stored.Find(name); stored != nil {
		return &messages.DeploymentStatus{Spec: stored.GetSpec(), Revision: stored.GetRevision()}, nil
	}
	status, err := d.Node.Deployment(ctx, name)
	if refused := (control.Refusal{}); errors.As(err, &refused) &&
		refused.GetReason() == messages.Reason_REASON_NOT_FOUND &&
		len(d.catalogue.All("")) > 0 {
		err = control.Refuse(refused.GetReason(), refused.GetDetail()+", and adapters, which /v1/models lists")
	}
	return status, err
}

// Deployment implements control.Backend.
func (n *Node) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	for {
		d, err := ask[*messages.DeploymentStatus](ctx, n, routerID, &messages.GetDeployment{Name: name})
		if refused := (control.Refusal{}); !errors.As(err, &refused) ||
			refused.GetReason() != messages.Reason_REASON_NOT_READY {
			return d, err
		}
		select { // the router has just started and has not read the store yet
		case <-ctx.Done():
			return nil, err
		case <-time.After(queryRetry):
		}
	}
}

// Deployments implements gateway.Directory and control.Backend.
func (n *Node) Deployments(ctx context.Context) ([]*messages.DeploymentStatus, error) {
	t, err := ask[*messages.ClusterView](ctx, n, routerID, &messages.GetClusterView{})
	return t.GetDeployments(), err
}

// Gpus returns the status of this node's devices.
func (n *Node) Gpus(ctx context.Context) ([]*messages.GpuStatus, error) {
	var all []*messages.GpuStatus
	for i := range n.devices {
		g, err := ask[*messages.GpuStatus](ctx, n, devicesID+"/"+gpuName(i), &messages.GetGpu{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", gpuName(i), err)
		}
		all = append(all, g)
	}
	return all, nil
}

// RestartReplica implements control.Backend.
func (n *Node) RestartReplica(ctx context.Context, name string) error {
	found, err := retryStale(ctx, func() (*messages.ReplicaStatus, error) {
		t, err := ask[*messages.ClusterView](ctx, n, routerID, &messages.GetClusterView{})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(t.GetReplicas(), func(r *messages.ReplicaStatus) bool { return r.GetName() == name })
		if i < 0 {
			return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
				fmt.Sprintf("no replica %s; replicas.list names them", name))
		}
		return t.GetReplicas()[i], nil
	})
	if err != nil {
		return err
	}
	group := actor.NewPID(found.GetActor().GetAddress(), replicasID)
	r, err := askAt[*messages.RestartReplicaResult](ctx, n, group, &messages.RestartReplica{Replica: name})
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

// checkModel checks that the model in a folder can serve requests and that its chat template works.
func (n *Node) checkModel(path string) (engine.ModelInfo, error) {
	if err := n.cfg.Roots.Check(path); err != nil {
		return engine.ModelInfo{}, err
	}
	facts, err := n.inspect(path)
	if err != nil {
		return facts, err
	}
	if _, err := tokenizer.LoadFor(n.cfg.Roots, path, facts.Vocab); err != nil {
		return facts, err
	}
	return facts, chat.Try(n.cfg.Roots, path)
}

func (n *Node) inspect(path string) (engine.ModelInfo, error) { return n.residency[0].Inspect(path) }

// DeleteDeployment implements control.Backend.
func (n *Node) DeleteDeployment(ctx context.Context, name string) error {
	err := n.store.Delete(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return control.Refuse(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("model %q is not deployed", name))
	}
	if err == nil {
		n.events.Publish("model.deleted", name, "its replicas finish their requests")
	}
	return err
}
