package troupe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/cluster/control"
	"troupe/cluster/store"
	"troupe/messages"
)

// asMember is this node, as a cluster of one has it.
func (n *Node) asMember() *messages.Member {
	now := time.Now()
	m := &messages.Member{
		Id: fmt.Sprintf("%s.%d", n.cfg.Name, now.UnixMicro()), Name: n.cfg.Name, Incarnation: uint64(now.UnixMicro()),
		HttpUrl: "http://" + n.address, NatsUrl: n.nats.URL(), State: messages.MemberState_MEMBER_STATE_UP,
		Version: n.cfg.Version, Started: timestamppb.New(now),
	}
	for i := range n.devices {
		m.Gpus = append(m.Gpus, gpuName(i))
	}
	return m
}

// Members implements control.Backend.
func (n *Node) Members() []*messages.Member { return []*messages.Member{n.member} }

// NodeStatus implements control.Backend.
func (n *Node) NodeStatus(ctx context.Context) (*messages.NodeStatus, error) {
	spec, err := n.store.Node(ctx, n.cfg.Name)
	if err != nil {
		return nil, err
	}
	gpus, err := n.Gpus(ctx)
	if err != nil {
		return nil, err
	}
	all, err := n.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	s := &messages.NodeStatus{Member: n.member, Draining: spec.GetDraining(), Gpus: gpus, Sessions: uint32(n.calls.Open())}
	for _, d := range all {
		for _, r := range d.GetReplicas() {
			s.Replicas++
			s.Running += r.GetRunning()
			s.Waiting += r.GetWaiting()
			s.TokensIn += r.GetTokensIn()
			s.TokensOut += r.GetTokensOut()
			s.TokensCached += r.GetTokensCached()
		}
	}
	if s.Draining {
		s.Detail = drained(s)
	}
	return s, nil
}

// drained says what keeps a node from being stopped.
func drained(s *messages.NodeStatus) string {
	var left []string
	for what, count := range map[string]uint32{"replicas": s.GetReplicas(), "sessions": s.GetSessions()} {
		if count > 0 {
			left = append(left, fmt.Sprintf("%d %s", count, what))
		}
	}
	if len(left) == 0 {
		return "drained: safe to stop"
	}
	slices.Sort(left)
	return "draining: it still has " + strings.Join(left, ", ")
}

// DrainNode implements control.Backend.
func (n *Node) DrainNode(ctx context.Context, name string, draining bool) (*messages.NodeStatus, error) {
	if name != n.cfg.Name {
		return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("node %q is not in the cluster; there are: %s", name, n.cfg.Name))
	}
	if err := n.store.PutNode(ctx, &messages.NodeSpec{Name: name, Draining: draining}); err != nil {
		return nil, err
	}
	return n.NodeStatus(ctx)
}

// Scale implements control.Backend. A change that others made meanwhile is taken up.
func (n *Node) Scale(ctx context.Context, name string, replicas uint32) (*messages.DeploymentSpec, uint64, error) {
	for {
		stored, revision, err := n.store.Get(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			return nil, 0, control.Refuse(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("model %q is not deployed", name))
		}
		if err != nil {
			return nil, 0, err
		}
		spec, err := control.Scaled(stored, replicas)
		if err != nil {
			return nil, 0, err
		}
		if revision, err = n.store.Put(ctx, spec, revision); !errors.Is(err, store.ErrConflict) {
			n.events.Publish("model.scaled", name, fmt.Sprintf("from %d to %d replicas", stored.GetReplicas(), replicas))
			return spec, revision, err
		}
	}
}

// Migrate implements control.Backend.
func (n *Node) Migrate(ctx context.Context, req *messages.MigrateReplicaRequest) (*messages.MigrateReplicaResponse, error) {
	all, err := n.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	from, to, err := control.Pair(all, req.GetFrom(), req.GetTo())
	if err != nil {
		return nil, err
	}
	answer, err := ask[*messages.MigrateSequencesResult](ctx, n, from.GetActor().GetId(), &messages.MigrateSequences{
		RequestId: rand.Text(), Target: to.GetName(), TargetActor: to.GetActor(), RequestIds: req.GetRequestIds(),
	})
	if err != nil {
		return nil, fmt.Errorf("replica %s: %w", from.GetName(), err)
	}
	if refused := answer.GetRefused(); refused != nil {
		return nil, control.Refusal{Refused: refused}
	}
	return &messages.MigrateReplicaResponse{Sequences: answer.GetSequences()}, nil
}

// Explain implements control.Backend.
func (n *Node) Explain(ctx context.Context, requestID string) (*messages.ExplainResponse, error) {
	answer, err := ask[*messages.Explanation](ctx, n, routerID, &messages.GetExplanation{RequestId: requestID})
	if err != nil && !errors.Is(err, actor.ErrDeadLetter) {
		return nil, err
	}
	if len(answer.GetDecisions()) == 0 {
		return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("no node has routed a request %q, or it is forgotten", requestID))
	}
	return &messages.ExplainResponse{RequestId: requestID, Decisions: answer.GetDecisions()}, nil
}

// named returns a device's status with the node it is in.
func (n *Node) named(g *messages.GpuStatus) *messages.GpuStatus {
	g = proto.Clone(g).(*messages.GpuStatus)
	g.Node = n.cfg.Name
	return g
}
