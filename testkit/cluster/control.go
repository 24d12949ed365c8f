package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// callTimeout is how long one control call may take. While something is broken it is made again: NATS may give it to a node that stands
// still, or is cut off, and has not been missed yet.
const callTimeout = TimeScale * 2 * time.Second

// Call makes a control call, as the nats command line does: "models.list" is the subject troupe.v1.models.list.
func (c *Cluster) Call(ctx context.Context, subject string, req, res proto.Message) error {
	conn, err := c.NATS()
	if err != nil {
		return err
	}
	body, err := protojson.Marshal(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := conn.RequestWithContext(ctx, "troupe.v1."+subject, body)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if refusal := reply.Header.Get(micro.ErrorHeader); refusal != "" {
		return fmt.Errorf("%s was refused: %s", subject, refusal)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(reply.Data, res); err != nil {
		return fmt.Errorf("answer of %s: %w", subject, err)
	}
	return nil
}

// Deploy deploys a model and waits until as many listReplicas serve as it asks for.
func (c *Cluster) Deploy(ctx context.Context, spec *messages.DeploymentSpec) error {
	if err := Until(ctx, func() error {
		return c.Call(ctx, "models.deploy", &messages.DeployModelRequest{Deployment: spec}, &messages.DeployModelResponse{})
	}); err != nil {
		return err
	}
	return c.WaitReady(ctx, spec.GetName())
}

// WaitReady waits until a model has all its listReplicas.
func (c *Cluster) WaitReady(ctx context.Context, model string) error {
	return Until(ctx, func() error {
		d, err := c.Model(ctx, model)
		if err != nil {
			return err
		}
		serving := 0
		for _, r := range d.GetReplicas() {
			if r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
				serving++
			}
		}
		if serving != int(d.GetSpec().GetReplicas()) || d.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_READY {
			return fmt.Errorf("%s is %s with %d of %d replicas: %s", model, d.GetState(), serving, d.GetSpec().GetReplicas(), d.GetDetail())
		}
		return nil
	})
}

// Model asks how a deployment is.
func (c *Cluster) Model(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	res := &messages.GetModelResponse{}
	err := c.Call(ctx, "models.get", &messages.GetModelRequest{Name: name}, res)
	return res.GetModel(), err
}

// ReplicaNames are the names of those there are, in order; never none.
func (c *Cluster) ReplicaNames(ctx context.Context) (names []string, err error) {
	err = Until(ctx, func() error {
		all, err := c.listReplicas(ctx)
		if names = slices.Sorted(maps.Keys(all)); err == nil && len(names) == 0 {
			err = errors.New("there are no replicas")
		}
		return err
	})
	return names, err
}

// RestartReplica has a replica restarted as after a crash.
func (c *Cluster) RestartReplica(ctx context.Context, name string) error {
	return c.Call(ctx, "replicas.restart", &messages.RestartReplicaRequest{Name: name}, &messages.RestartReplicaResponse{})
}

// Explain tells where a stream was sent, in order.
func (c *Cluster) Explain(ctx context.Context, stream string) ([]*messages.RouteDecision, error) {
	res := &messages.ExplainResponse{}
	err := c.Call(ctx, "explain."+stream, &messages.ExplainRequest{}, res)
	return res.GetDecisions(), err
}

// Members are the nodes that the cluster says it has, by name. A single node of a build without a cluster is its own member.
func (c *Cluster) Members(ctx context.Context) (map[string]*messages.NodeStatus, error) {
	res := &messages.ListNodesResponse{}
	err := c.Call(ctx, "nodes.list", &messages.ListNodesRequest{}, res)
	if errors.Is(err, nats.ErrNoResponders) && !HasFlag("--join") {
		return map[string]*messages.NodeStatus{nodeName(0): {}}, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]*messages.NodeStatus{}
	for _, n := range res.GetNodes() {
		if s := n.GetMember().GetState(); s == messages.MemberState_MEMBER_STATE_LOST || s == messages.MemberState_MEMBER_STATE_LEFT {
			continue // it is shown for a while
		}
		all[n.GetMember().GetName()] = n
	}
	return all, nil
}

// WaitMembers waits until the cluster's members are the living nodes, no more and no fewer, and each answers.
func (c *Cluster) WaitMembers(ctx context.Context) error {
	return Until(ctx, func() error {
		members, err := c.Members(ctx)
		if err != nil {
			return err
		}
		living := c.LiveNodes()
		for _, n := range living {
			m, ok := members[n.Name]
			if !ok {
				return fmt.Errorf("%s runs and is no member", n.Name)
			}
			if why := m.GetUnreachable(); why != "" {
				return fmt.Errorf("%s is a member and can not be asked: %s", n.Name, why)
			}
		}
		if len(members) != len(living) {
			return fmt.Errorf("%d members for %d living nodes", len(members), len(living))
		}
		return nil
	})
}
