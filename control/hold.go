package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
)

// maxHold is the longest time of a hold. One without a time lasts until it is released.
const maxHold = 30 * 24 * time.Hour

type callerKey struct{}

// withCaller returns a context that has the name of the client whose request is handled.
func withCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

// callerOf returns the name of the client whose request is handled, as the audit log has it.
func callerOf(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}

// HoldBy returns the hold of a command, which lasts for a time; nil: until it is released.
func HoldBy(ctx context.Context, command string, hold *durationpb.Duration, now time.Time) *messages.Hold {
	h := &messages.Hold{Who: callerOf(ctx), What: command, At: timestamppb.New(now)}
	if hold != nil {
		h.Until = timestamppb.New(now.Add(hold.AsDuration()))
	}
	return h
}

// checkHold refuses a hold that is not a time from now.
func checkHold(hold *durationpb.Duration) error {
	if d := hold.AsDuration(); hold != nil && (d <= 0 || d > maxHold) {
		return Refuse(messages.Reason_REASON_INVALID_ARGUMENT, fmt.Sprintf(
			`hold is %s; send a time from "1s" to "%s", or leave it out`, d, maxHold))
	}
	return nil
}

// releaseModel lets the planner decide on a deployment again.
func (c *control) releaseModel(ctx context.Context, req *messages.ReleaseModelRequest) (
	*messages.ReleaseModelResponse, error) {
	if err := requireName(req); err != nil {
		return nil, err
	}
	change := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		if stored == nil {
			return nil, notDeployed(req.GetName())
		}
		next := stored.Release()
		next.DropWeights = false // it was of the change before
		return next, nil
	}
	done, err := c.Backend.Update(ctx, req.GetName(), 0, change)
	if err != nil {
		return nil, err
	}
	return &messages.ReleaseModelResponse{
		Deployment: done.After, Revision: done.Revision, Changes: Changes(done.Before, done.After),
	}, nil
}

// holdScaled holds a deployment at the number of replicas that models.scale has set. One with a fixed
// number of replicas, or none, needs no hold: the planner does not change it, or a request starts it. Merge
// has ended an earlier hold.
func holdScaled(spec *messages.DeploymentSpec, hold *messages.Hold) error {
	switch {
	case spec.GetReplicas() == 0 && hold.GetUntil() != nil:
		return Refuse(messages.Reason_REASON_INVALID_ARGUMENT, fmt.Sprintf(
			"hold: model %s is to have no replicas, and only replicas can be held; send the command without hold",
			spec.GetName()))
	case spec.GetReplicas() > 0 && (hold.GetUntil() != nil || spec.GetMinReplicas() != spec.GetMaxReplicas()):
		spec.HeldBy = hold
	}
	return nil
}

// holdLevel holds a deployment whose level an operator has set. At the level active as a whole, the planner
// decides on it again, unless it is to be held for a time. A command for a replica that leaves no level, and that
// did not end one, has changed nothing: an earlier hold stays.
func holdLevel(stored, next *messages.DeploymentSpec, replica string, hold *messages.Hold) *messages.DeploymentSpec {
	earlier := next.GetHeldBy()
	switch next.HeldBy = nil; {
	case next.Held() || hold.GetUntil() != nil:
		next.SetHold(hold)
	case replica != "" && len(stored.GetReplicaLevels()) == 0:
		next.HeldBy = earlier
	}
	return next
}

// holdMigrated holds the deployment of a replica whose sequences were migrated.
func (c *control) holdMigrated(ctx context.Context, replica string, hold *messages.Hold) error {
	all, err := c.Backend.Deployments(ctx)
	if err != nil {
		return err
	}
	for _, d := range all {
		named := func(r *messages.ReplicaStatus) bool { return r.GetName() == replica }
		if !slices.ContainsFunc(d.GetReplicas(), named) {
			continue
		}
		model := d.GetSpec().GetName()
		_, err := c.Backend.Update(ctx, model, 0,
			func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
				if stored == nil {
					return nil, notDeployed(model)
				}
				next := proto.CloneOf(stored)
				next.SetHold(hold)
				return next, nil
			})
		return err
	}
	return nil // it has left meanwhile
}
