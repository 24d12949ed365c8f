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

// callTimeout bounds one control call. NATS may give a call to a node that is stopped or cut off
// and has not been found missing yet, so calls are repeated during a fault.
const callTimeout = TimeScale * 2 * time.Second

// Call makes a control call as the nats command line does: "models.list" is the subject
// troupe.v1.models.list.
func (c *Cluster) Call(ctx context.Context, subject string, req, res proto.Message) error {
	return c.CallWithin(ctx, callTimeout, subject, req, res)
}

// CallWithin is Call with another limit, for calls that are answered late.
func (c *Cluster) CallWithin(ctx context.Context, limit time.Duration, subject string, req, res proto.Message) error {
	conn, err := c.NATS()
	if err != nil {
		return err
	}
	body, err := protojson.Marshal(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := conn.RequestWithContext(ctx, "troupe.v1."+subject, body)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if refusal := reply.Header.Get(micro.ErrorHeader); refusal != "" {
		return fmt.Errorf("%s was refused: %s", subject, refusal)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(reply.Data, res); err != nil {
		return fmt.Errorf("response of %s: %w", subject, err)
	}
	return nil
}

// Deploy deploys a model and waits until all its replicas serve.
func (c *Cluster) Deploy(ctx context.Context, spec *messages.DeploymentSpec) error {
	if err := Until(ctx, func() error {
		req := &messages.DeployModelRequest{Deployment: spec}
		return c.Call(ctx, "models.deploy", req, &messages.DeployModelResponse{})
	}); err != nil {
		return err
	}
	return c.WaitReady(ctx, spec.GetName())
}

// WaitReady waits until all replicas of a model serve.
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
		if serving != int(d.GetSpec().GetReplicas()) ||
			d.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_READY {
			return fmt.Errorf("%s is %s with %d of %d replicas: %s", model, d.GetState(), serving,
				d.GetSpec().GetReplicas(), d.GetDetail())
		}
		return nil
	})
}

// Model returns the status of a deployment.
func (c *Cluster) Model(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	res := &messages.GetModelResponse{}
	err := c.Call(ctx, "models.get", &messages.GetModelRequest{Name: name}, res)
	return res.GetModel(), err
}

// ReplicaNames returns the sorted names of all replicas. It waits until there is at least one.
func (c *Cluster) ReplicaNames(ctx context.Context) (names []string, err error) {
	err = Until(ctx, func() error {
		all, err := c.listReplicas(ctx)
		if names = slices.Sorted(maps.Keys(all)); err == nil && len(names) == 0 {
			err = errors.New("no replicas")
		}
		return err
	})
	return names, err
}

// RestartReplica restarts a replica as after a crash.
func (c *Cluster) RestartReplica(ctx context.Context, name string) error {
	return c.Call(ctx, "replicas.restart", &messages.RestartReplicaRequest{Name: name},
		&messages.RestartReplicaResponse{})
}

// Explain returns the route decisions of a stream, in order.
func (c *Cluster) Explain(ctx context.Context, stream string) ([]*messages.RouteDecision, error) {
	res := &messages.ExplainResponse{}
	err := c.Call(ctx, "explain."+stream, &messages.ExplainRequest{}, res)
	return res.GetDecisions(), err
}

// Members returns the current members of the cluster by name. A build without clustering has its
// only node as member.
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
		if s := n.GetMember().GetState(); s == messages.MemberState_MEMBER_STATE_LOST ||
			s == messages.MemberState_MEMBER_STATE_LEFT {
			continue // former members are listed for a while
		}
		all[n.GetMember().GetName()] = n
	}
	return all, nil
}

// WaitMembers waits until the members are exactly the live nodes and each of them responds.
func (c *Cluster) WaitMembers(ctx context.Context) error {
	return Until(ctx, func() error {
		members, err := c.Members(ctx)
		if err != nil {
			return err
		}
		live := c.LiveNodes()
		for _, n := range live {
			m, ok := members[n.Name]
			if !ok {
				return fmt.Errorf("%s runs but is not a member", n.Name)
			}
			if why := m.GetUnreachable(); why != "" {
				return fmt.Errorf("%s is a member but unreachable: %s", n.Name, why)
			}
		}
		if len(members) != len(live) {
			return fmt.Errorf("%d members for %d live nodes", len(members), len(live))
		}
		return nil
	})
}
