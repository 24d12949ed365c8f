package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"troupe/actors/supervise"
	"troupe/control"
	"troupe/messages"
	"troupe/node/query"
)

// pollPreemption is the time between two looks at the progress of a preemption.
const pollPreemption = 50 * time.Millisecond

// Preempt implements control.Backend. It returns when the preemption has ended.
func (r *ReplicaControl) Preempt(ctx context.Context,
	req *messages.PreemptReplicaRequest) (*messages.PreemptReplicaResponse, error) {
	rt := supervise.RuntimeOf(r.System)
	found, err := query.RetryStale(ctx, rt, func() (*messages.ReplicaStatus, error) {
		return r.replica(ctx, req.GetName())
	})
	if err != nil {
		return nil, err
	}
	id, hold := rt.ID(), control.HoldBy(ctx, "replicas.preempt", req.GetHold(), rt.Now())
	change := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		return control.Preempt(stored, found, req, id, hold, rt.Now())
	}
	_, err = r.Update(ctx, found.GetModel(), 0, change)
	if err != nil {
		return nil, err
	}
	return r.awaitPreemption(ctx, found.GetModel(), id)
}

// replica returns the status of a replica.
func (r *ReplicaControl) replica(ctx context.Context, name string) (*messages.ReplicaStatus, error) {
	all, err := r.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		i := slices.IndexFunc(d.GetReplicas(), func(s *messages.ReplicaStatus) bool { return s.GetName() == name })
		if i >= 0 {
			return d.GetReplicas()[i], nil
		}
	}
	return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("no replica %s; replicas.list names them", name))
}

// awaitPreemption waits until a preemption has ended. It survives crashes of the actors involved,
// since it follows the status of the deployment.
func (r *ReplicaControl) awaitPreemption(ctx context.Context, model, id string) (*messages.PreemptReplicaResponse,
	error) {
	rt := supervise.RuntimeOf(r.System)
	var last *messages.PreemptionStatus
	for {
		all, err := r.Deployments(ctx)
		if err == nil {
			p := preemptionOf(all, model, id)
			if p == nil && last != nil { // the operator has ended it
				return &messages.PreemptReplicaResponse{Preemption: last}, nil
			}
			last = p
		}
		if last.GetPhase() == messages.PreemptionPhase_PREEMPTION_PHASE_ENDED {
			return &messages.PreemptReplicaResponse{Preemption: last}, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), fmt.Errorf("the preemption goes on in phase %s; models.get shows it",
				last.GetPhase()))
		case <-rt.After(pollPreemption):
		}
	}
}

func preemptionOf(all []*messages.DeploymentStatus, model, id string) *messages.PreemptionStatus {
	for _, d := range all {
		if d.GetSpec().GetName() != model {
			continue
		}
		for _, p := range d.GetPreemptions() {
			if p.GetPreemption().GetId() == id {
				return p
			}
		}
	}
	return nil
}
