package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/messages"
)

// Members implements control.Backend.
func (n *Node) Members() []*messages.Member { return n.members.Live() }

// NodeStatus implements control.Backend.
func (n *Node) NodeStatus(ctx context.Context) (*messages.NodeStatus, error) {
	gpus, err := n.Gpus(ctx)
	if err != nil {
		return nil, err
	}
	t, err := ask[*messages.ClusterView](ctx, n, routerID, &messages.GetClusterView{})
	if err != nil {
		return nil, err
	}
	s := &messages.NodeStatus{
		Member: n.Member(), Draining: n.isDraining(), Gpus: gpus, Sessions: uint32(n.calls.Open()),
		Disk: n.diskStatus(),
	}
	for _, r := range t.GetReplicas() {
		if r.GetNode() == n.cfg.Name {
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

// drainDetail describes what still runs on a node that is being drained.
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
// replacement is used.
func (n *Node) DrainNode(ctx context.Context, name string, draining bool) (*messages.NodeStatus, error) {
	member, err := retryStale(ctx, func() (*messages.Member, error) { return n.findDrainable(ctx, name) })
	if err != nil {
		return nil, err
	}
	if err := n.store.PutNode(ctx, &messages.NodeSpec{Name: name, Draining: draining}); err != nil {
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
func (n *Node) findDrainable(ctx context.Context, name string) (*messages.Member, error) {
	var names []string
	for _, m := range n.Members() {
		if m.GetName() == name {
			return m, nil
		}
		names = append(names, m.GetName())
	}
	stored, err := n.store.Node(ctx, name)
	if err != nil {
		return nil, err
	}
	if stored.GetDraining() {
		return &messages.Member{Name: name}, nil
	}
	return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("node %q is not in the cluster; there are: %s", name, strings.Join(names, ", ")))
}

// scaleAtRevision stores the number of replicas of a deployment. It returns store.ErrConflict if
// the deployment is no longer at the given revision.
func (n *Node) scaleAtRevision(ctx context.Context, name string, revision uint64, replicas uint32, why string) error {
	stored, at, err := n.store.Get(ctx, name)
	if err != nil {
		return err
	}
	if at != revision {
		return fmt.Errorf("deployment %s: %w", name, store.ErrConflict)
	}
	before := stored.GetReplicas()
	stored.Replicas, stored.AskedRevision = new(replicas), 0
	if _, err := n.store.Put(ctx, stored, revision); err != nil {
		return err
	}
	n.events.Publish("model.scaled", name, fmt.Sprintf("from %d to %d replicas: %s", before, replicas, why))
	return nil
}

// Migrate implements control.Backend.
func (n *Node) Migrate(ctx context.Context,
	req *messages.MigrateReplicaRequest) (*messages.MigrateReplicaResponse, error) {
	id := rand.Text() // the same for each retry, so that a migration is not started twice
	answer, err := retryStale(ctx, func() (*messages.MigrateSequencesResult, error) {
		all, err := n.Deployments(ctx)
		if err != nil {
			return nil, err
		}
		from, to, err := control.MigrationPair(all, req.GetFrom(), req.GetTo())
		if err != nil {
			return nil, err
		}
		source := actor.NewPID(from.GetActor().GetAddress(), from.GetActor().GetId())
		answer, err := askAt[*messages.MigrateSequencesResult](ctx, n, source, &messages.MigrateSequences{
			RequestId: id, Target: to.GetName(), TargetActor: to.GetActor(),
			RequestIds: req.GetRequestIds(), Cause: "replicas.migrate",
		})
		if err != nil {
			return nil, fmt.Errorf("replica %s: %w", from.GetName(), err)
		}
		return answer, nil
	})
	if err != nil {
		return nil, err
	}
	if refused := answer.GetRefused(); refused != nil {
		return nil, control.Refusal{Refused: refused}
	}
	return &messages.MigrateReplicaResponse{Sequences: answer.GetSequences()}, nil
}

// Explain implements control.Backend. It asks all routers, and ignores those that do not answer.
func (n *Node) Explain(ctx context.Context, requestID string) (*messages.ExplainResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var mu sync.Mutex
	var decisions []*messages.RouteDecision
	var queries sync.WaitGroup
	for _, m := range n.Members() {
		queries.Go(func() {
			e, _ := askAt[*messages.Explanation](ctx, n, actor.NewPID(m.GetAddress(), routerID),
				&messages.GetExplanation{RequestId: requestID})
			mu.Lock()
			defer mu.Unlock()
			decisions = append(decisions, e.GetDecisions()...)
		})
	}
	queries.Wait()
	if len(decisions) == 0 {
		return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("no node remembers a request %q", requestID))
	}
	slices.SortFunc(decisions,
		func(a, b *messages.RouteDecision) int { return a.GetTime().AsTime().Compare(b.GetTime().AsTime()) })
	return &messages.ExplainResponse{RequestId: requestID, Decisions: decisions}, nil
}

// QuarantineGpu implements control.Backend.
func (n *Node) QuarantineGpu(ctx context.Context, req *messages.QuarantineGpuRequest) (*messages.GpuStatus, error) {
	at, err := n.gpuActor(req)
	if err != nil {
		return nil, err
	}
	answer, err := askAt[*messages.QuarantineGpuResult](ctx, n, at,
		&messages.QuarantineGpu{RequestId: rand.Text(), Detail: req.GetDetail()})
	return outcome(answer.GetQuarantined(), answer.GetRefused(), err)
}

// ReleaseGpu implements control.Backend.
func (n *Node) ReleaseGpu(ctx context.Context, req *messages.ReleaseGpuRequest) (*messages.GpuStatus, error) {
	at, err := n.gpuActor(req)
	if err != nil {
		return nil, err
	}
	answer, err := askAt[*messages.ReleaseGpuResult](ctx, n, at,
		&messages.ReleaseGpu{RequestId: rand.Text(), Untested: req.GetUntested()})
	return outcome(answer.GetReleased(), answer.GetRefused(), err)
}

// gpuActor returns the actor of a GPU on any node.
func (n *Node) gpuActor(req interface {
	GetNode() string
	GetName() string
}) (*actor.PID, error) {
	for _, m := range n.Members() {
		if m.GetName() == req.GetNode() && slices.Contains(m.GetGpus(), req.GetName()) {
			return actor.NewPID(m.GetAddress(), devicesID+"/"+req.GetName()), nil
		}
	}
	return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("no %s on node %q; gpus.list names all GPUs", req.GetName(), req.GetNode()))
}

func outcome[T any](done T, refused *messages.Refused, err error) (T, error) {
	if err == nil && refused != nil {
		err = control.Refusal{Refused: refused}
	}
	return done, err
}
