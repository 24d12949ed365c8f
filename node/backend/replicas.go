package backend

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/control"
	"troupe/messages"
	"troupe/node/query"
	"troupe/node/steps"
)

// explainTimeout is the maximum time for the routers of all nodes to answer.
const explainTimeout = time.Second

// ReplicaControl implements control.ReplicaBackend.
type ReplicaControl struct {
	System      *actor.ActorSystem
	Members     func() []*messages.Member // live members
	Deployments func(ctx context.Context) ([]*messages.DeploymentStatus, error)
	// Update changes a stored deployment.
	Update func(ctx context.Context, name string, ifRevision uint64, change control.Change) (control.Updated, error)
}

// RestartReplica implements control.Backend.
func (r *ReplicaControl) RestartReplica(ctx context.Context, name string) error {
	found, err := query.RetryStale(ctx, supervise.RuntimeOf(r.System), func() (*messages.ReplicaStatus, error) {
		t, err := query.Ask[*messages.ClusterView](ctx, r.System, query.Router, &messages.GetClusterView{})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(t.GetReplicas(), func(s *messages.ReplicaStatus) bool { return s.GetName() == name })
		if i < 0 {
			return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
				fmt.Sprintf("no replica %s; replicas.list names them", name))
		}
		return t.GetReplicas()[i], nil
	})
	if err != nil {
		return err
	}
	group := actor.NewPID(found.GetActor().GetAddress(), query.Replicas)
	answer, err := query.At[*messages.RestartReplicaResult](ctx, r.System, group,
		&messages.RestartReplica{Replica: name})
	if err != nil {
		return err
	}
	if refused := answer.GetRefused(); refused != nil {
		return control.Refusal{Refused: refused}
	}
	return nil
}

// Migrate implements control.Backend.
func (r *ReplicaControl) Migrate(ctx context.Context,
	req *messages.MigrateReplicaRequest) (*messages.MigrateReplicaResponse, error) {
	rt := supervise.RuntimeOf(r.System)
	id := rt.ID() // the same id for each retry, so that a migration is not started twice
	answer, err := query.RetryStale(ctx, rt, func() (*messages.MigrateSequencesResult, error) {
		all, err := r.Deployments(ctx)
		if err != nil {
			return nil, err
		}
		from, to, err := control.MigrationPair(all, req.GetFrom(), req.GetTo())
		if err != nil {
			return nil, err
		}
		source := actor.NewPID(from.GetActor().GetAddress(), from.GetActor().GetId())
		answer, err := query.At[*messages.MigrateSequencesResult](ctx, r.System, source, &messages.MigrateSequences{
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
func (r *ReplicaControl) Explain(ctx context.Context, requestID string) (*messages.ExplainResponse, error) {
	rt := supervise.RuntimeOf(r.System)
	ctx, cancel := rt.WithTimeout(ctx, explainTimeout)
	defer cancel()
	members := r.Members()
	found := make([][]*messages.RouteDecision, len(members))
	steps.All(rt, len(members), func(i int) {
		e, _ := query.At[*messages.Explanation](ctx, r.System, actor.NewPID(members[i].GetAddress(), query.Router),
			&messages.GetExplanation{RequestId: requestID})
		found[i] = e.GetDecisions()
	})
	decisions := slices.Concat(found...)
	if len(decisions) == 0 {
		return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("no node remembers a request %q", requestID))
	}
	slices.SortFunc(decisions,
		func(a, b *messages.RouteDecision) int { return a.GetTime().AsTime().Compare(b.GetTime().AsTime()) })
	return &messages.ExplainResponse{RequestId: requestID, Decisions: decisions}, nil
}
