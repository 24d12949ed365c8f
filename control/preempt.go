package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/core/preempt"
	"troupe/messages"
)

const (
	preemptEndpoint    = "replicas-preempt"
	preemptDeadline    = 30 * time.Second // of a request that names none
	maxPreemptDeadline = 10 * time.Minute
	preemptTimeout     = time.Minute // after the deadline, to save the sequences and free the memory
)

// PreemptDeadline returns the time from now until which the sequences of a preempted replica may
// finish.
func PreemptDeadline(req *messages.PreemptReplicaRequest) time.Duration {
	if req.GetDeadline() == nil {
		return preemptDeadline
	}
	return req.GetDeadline().AsDuration()
}

// preemptReplica answers when the memory of the replica is free.
func (c *control) preemptReplica(
	ctx context.Context,
	req *messages.PreemptReplicaRequest,
) (*messages.PreemptReplicaResponse, error) {
	if err := cmp.Or(requireName(req), checkHold(req.GetHold())); err != nil {
		return nil, err
	}
	deadline := PreemptDeadline(req)
	if deadline < 0 || deadline > maxPreemptDeadline {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			fmt.Sprintf(`deadline is %s; send one from "0s" to %q`, deadline, maxPreemptDeadline))
	}
	if req.GetDrop() && req.GetPark() {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			"drop and park exclude each other; send one of them")
	}
	ctx, cancel := c.Runtime.WithTimeout(ctx, deadline+preemptTimeout)
	defer cancel()
	return c.Backend.Preempt(ctx, req)
}

var preemptReasons = map[preempt.Reason]messages.Reason{
	preempt.NotAllowed:      messages.Reason_REASON_FORBIDDEN,
	preempt.AlreadyStopping: messages.Reason_REASON_CONFLICT,
	preempt.BelowMinimum:    messages.Reason_REASON_CONFLICT,
}

// Preempt adds the preemption of a replica to a stored deployment, which the command holds from now on, or
// returns why the replica may not be preempted.
func Preempt(stored *messages.DeploymentSpec, replica *messages.ReplicaStatus, req *messages.PreemptReplicaRequest,
	id string, hold *messages.Hold, now time.Time) (*messages.DeploymentSpec, error) {
	name := replica.GetName()
	if stored == nil {
		return nil, notDeployed(replica.GetModel())
	}
	why := preempt.Check(preempt.Candidate{
		Replica: name, Model: stored.GetName(),
		Critical: stored.GetPriority() == messages.Priority_PRIORITY_CRITICAL,
		Stopping: replica.GetState() == messages.ReplicaState_REPLICA_STATE_DRAINING || preempted(stored, name),
		Wanted:   int(stored.Wanted()), MinReplicas: int(stored.GetMinReplicas()),
		MaxReplicas: int(stored.GetMaxReplicas()), Force: req.GetForce(),
	})
	if why != (preempt.Refusal{}) {
		return nil, Refuse(preemptReasons[why.Reason], why.Detail)
	}
	spec := proto.CloneOf(stored)
	spec.HeldBy = hold
	delete(spec.GetReplicaLevels(), name)
	spec.Preemptions = append(spec.Preemptions, &messages.Preemption{
		Id: id, Replica: name, Node: replica.GetNode(), Gpu: replica.GetGpu(), Drop: req.GetDrop(),
		Park:     req.GetPark(),
		Deadline: timestamppb.New(now.Add(PreemptDeadline(req))),
	})
	return spec, nil
}

// preempted reports whether a replica is preempted.
func preempted(spec *messages.DeploymentSpec, replica string) bool {
	return slices.ContainsFunc(spec.GetPreemptions(), func(p *messages.Preemption) bool {
		return p.GetReplica() == replica
	})
}
