package backend

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/cluster/members"
	"troupe/control"
	"troupe/messages"
	"troupe/node/availability"
	"troupe/node/query"
	"troupe/node/stored"
)

// NodeStore is the part of the store that holds operators' settings for nodes.
type NodeStore interface {
	PutNode(ctx context.Context, spec *messages.NodeSpec) error
	Node(ctx context.Context, name string) (*messages.NodeSpec, error)
}

// Registry is the registry of the members.
type Registry interface {
	Live() []*messages.Member
	Self() *messages.Member
	Departed() []members.Departed
	LastSeen(node string) (time.Time, bool)
}

// NodeControl implements control.NodeBackend.
type NodeControl struct {
	Status       *Status
	Registry     Registry
	Drained      *stored.Drained
	Store        NodeStore
	Availability *availability.Store
	Sessions     func() int // open calls of this node's gateway
	Actors       func() []*messages.ActorNode
}

// Members implements control.Backend.
func (n *NodeControl) Members() []*messages.Member { return n.Registry.Live() }

// NodeStatus implements control.Backend.
func (n *NodeControl) NodeStatus(ctx context.Context) (*messages.NodeStatus, error) {
	gpus, err := n.Status.LocalGPUs(ctx)
	if err != nil {
		return nil, err
	}
	t, err := n.Status.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	s := &messages.NodeStatus{
		Member: n.Registry.Self(), Draining: n.Drained.Has(n.Status.Node), Gpus: gpus, Sessions: uint32(n.Sessions()),
		Disk: n.Availability.Disk(),
	}
	if s.HostCache, err = n.Status.LocalHostCache(ctx); err != nil {
		return nil, err
	}
	for _, r := range t.GetReplicas() {
		if r.GetNode() == n.Status.Node {
			s.Replicas++
			s.Running += r.GetRunning()
			s.Waiting += r.GetWaiting()
			s.TokensIn += r.GetTokensIn()
			s.TokensOut += r.GetTokensOut()
			s.TokensCached += r.GetTokensCached()
		}
	}
	if s.Draining {
		s.Detail = drainDetail(s, t)
	}
	return s, nil
}

// drainDetail describes what is still running on a node that is being drained.
func drainDetail(s *messages.NodeStatus, t *messages.ClusterView) string {
	if s.GetReplicas() == 0 && s.GetSessions() == 0 {
		return "drained: safe to stop"
	}
	detail := fmt.Sprintf("draining: %d replicas and %d gateway sessions left", s.GetReplicas(),
		s.GetSessions())
	for _, r := range t.GetReplicas() {
		for _, d := range t.GetDeployments() {
			if r.GetNode() == s.GetMember().GetName() && d.GetSpec().GetName() == r.GetModel() &&
				d.GetFailure() != nil {
				detail += "; " + r.GetModel() + ": " + d.GetFailure().GetDetail()
			}
		}
	}
	return detail
}

// DrainNode implements control.Backend. A drained node that is down can be undrained, so that its
// replacement can be used.
func (n *NodeControl) DrainNode(ctx context.Context, name string, draining bool) (*messages.NodeStatus, error) {
	rt := supervise.RuntimeOf(n.Status.System)
	member, err := query.RetryStale(ctx, rt, func() (*messages.Member, error) { return n.findDrainable(ctx, name) })
	if err != nil {
		return nil, err
	}
	if err := n.Store.PutNode(ctx, &messages.NodeSpec{Name: name, Draining: draining}); err != nil {
		return nil, err
	}
	s := &messages.NodeStatus{Member: member, Draining: draining}
	if draining {
		s.Detail = "draining; nodes.list shows the progress"
	}
	return s, nil
}

// findDrainable finds a live node, or one that is marked as draining in the store. It asks the
// store, because this node's watch may lag behind.
func (n *NodeControl) findDrainable(ctx context.Context, name string) (*messages.Member, error) {
	var names []string
	for _, m := range n.Members() {
		if m.GetName() == name {
			return m, nil
		}
		names = append(names, m.GetName())
	}
	stored, err := n.Store.Node(ctx, name)
	if err != nil {
		return nil, err
	}
	if stored.GetDraining() {
		return &messages.Member{Name: name}, nil
	}
	return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("node %q is not in the cluster; there are: %s", name, strings.Join(names, ", ")))
}

// Departed implements control.Backend.
func (n *NodeControl) Departed() (all []*messages.NodeStatus) {
	for _, d := range n.Registry.Departed() {
		word := "lost"
		if d.Member.GetState() == messages.MemberState_MEMBER_STATE_LEFT {
			word = "left"
		}
		all = append(all, &messages.NodeStatus{
			Member: d.Member, LastSeen: timestamppb.New(d.LastSeen),
			Unreachable: fmt.Sprintf("%s; last seen at %s", word, d.LastSeen.UTC().Format(time.RFC3339)),
		})
	}
	return all
}

// LastSeen implements control.Backend.
func (n *NodeControl) LastSeen(node string) *timestamppb.Timestamp {
	seen, ok := n.Registry.LastSeen(node)
	if !ok {
		return nil
	}
	return timestamppb.New(seen)
}

// StoreProblem implements control.Backend.
func (n *NodeControl) StoreProblem() *messages.Refused { return n.Availability.Problem() }

// Tree implements control.Backend.
func (n *NodeControl) Tree() []*messages.ActorNode { return n.Actors() }

// Weights implements control.Backend.
func (n *NodeControl) Weights(ctx context.Context) map[string][]*messages.GpuWeights {
	return n.Status.Weights(ctx)
}

// Faults implements control.Backend.
func (n *NodeControl) Faults(ctx context.Context) map[string]*messages.ReplicaFault {
	return n.Status.Faults(ctx)
}
