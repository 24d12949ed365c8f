package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	core "troupe/core/backend"
	"troupe/core/schedule"
	"troupe/messages"
)

func (c *control) standbyModel(
	ctx context.Context,
	req *messages.StandbyModelRequest,
) (*messages.StandbyModelResponse, error) {
	done, err := c.setLevel(ctx, req, "models.standby", messages.Level_LEVEL_STANDBY)
	if err != nil {
		return nil, err
	}
	return &messages.StandbyModelResponse{
		Deployment: done.After, Revision: done.Revision, Changes: Changes(done.Before, done.After),
	}, nil
}

func (c *control) activateModel(
	ctx context.Context,
	req *messages.ActivateModelRequest,
) (*messages.ActivateModelResponse, error) {
	done, err := c.setLevel(ctx, req, "models.activate", messages.Level_LEVEL_ACTIVE)
	if err != nil {
		return nil, err
	}
	return &messages.ActivateModelResponse{
		Deployment: done.After, Revision: done.Revision, Changes: Changes(done.Before, done.After),
	}, nil
}

// levelRequest names a model, and one of its replicas or none.
type levelRequest interface {
	GetName() string
	GetReplica() string
	GetHold() *durationpb.Duration
}

// setLevel stores the wanted level of a model or of one replica, and what holds it.
func (c *control) setLevel(ctx context.Context, req levelRequest, command string, level messages.Level) (Updated,
	error) {
	if err := cmp.Or(requireName(req), checkHold(req.GetHold())); err != nil {
		return Updated{}, err
	}
	hold := HoldBy(ctx, command, req.GetHold(), supervise.OrSystem(c.Runtime).Now())
	name, replica := req.GetName(), req.GetReplica()
	if replica != "" {
		if err := c.requireReplica(ctx, name, replica); err != nil {
			return Updated{}, err
		}
	}
	return c.Backend.Update(ctx, name, 0, func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		rest := schedule.RestOf(stored.Bounds())
		engine := core.SpecOf(stored.GetEngine().GetKind(), stored.GetEngine().GetWithout())
		switch {
		case stored == nil:
			return nil, notDeployed(name)
		case level == messages.Level_LEVEL_STANDBY && !engine.Capabilities().Has(core.Standby):
			return nil, Refuse(messages.Reason_REASON_UNSUPPORTED, fmt.Sprintf(
				"model %s: %s; models.scale stops replicas", name, core.Missing(engine.Kind, core.Standby)))
		case replica != "" && preempted(stored, replica):
			return nil, Refuse(messages.Reason_REASON_CONFLICT, fmt.Sprintf(
				"replica %s is preempted; models.scale or models.activate of the whole model ends that", replica))
		case rest == schedule.Awake:
		case level == messages.Level_LEVEL_STANDBY || replica != "":
			return nil, Refuse(messages.Reason_REASON_STOPPED, fmt.Sprintf(
				`model %s is %s (0 replicas), so none can change its level; models.park {"name": %q} moves its `+
					`weights from GPUs to the host cache, models.activate {"name": %q} starts it`,
				name, rest, name, name))
		case level == messages.Level_LEVEL_ACTIVE:
			var err error
			if stored, err = started(stored); err != nil {
				return nil, err
			}
		}
		return holdLevel(stored, withLevel(stored, replica, level), replica, hold), nil
	})
}

// started returns a deployment that is asleep or stopped with as many replicas as it needs to serve.
func started(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
	_, least, _ := stored.Bounds()
	replicas := uint32(max(1, least))
	return applyChange(stored, &messages.DeploymentSpec{Name: stored.GetName(), Replicas: &replicas}, nil)
}

// withLevel returns a deployment with another wanted level, of all replicas or of one. A model that is
// to serve gets its preempted replicas back; at the other levels they stay away.
func withLevel(stored *messages.DeploymentSpec, replica string, level messages.Level) *messages.DeploymentSpec {
	next := proto.CloneOf(stored)
	next.DropWeights = false // it was of the change before
	if replica == "" {
		next.Level, next.ReplicaLevels = level, nil
		if level == messages.Level_LEVEL_ACTIVE { // as without a level
			next.Level, next.Preemptions = messages.Level_LEVEL_UNSPECIFIED, nil
		}
		return next
	}
	delete(next.GetReplicaLevels(), replica)
	if next.LevelOf(replica) != level {
		if next.ReplicaLevels == nil {
			next.ReplicaLevels = make(map[string]messages.Level)
		}
		next.ReplicaLevels[replica] = level
	}
	return next
}

// requireReplica refuses a replica that the model does not have.
func (c *control) requireReplica(ctx context.Context, model, replica string) error {
	d, err := c.Backend.Deployment(ctx, model)
	if err != nil {
		return err
	}
	names := d.GetSpec().ParkedReplicas()
	for _, r := range d.GetReplicas() {
		names = append(names, r.GetName())
	}
	if slices.Contains(names, replica) {
		return nil
	}
	slices.Sort(names)
	names = slices.Compact(names) // one that is being parked
	return Refuse(messages.Reason_REASON_NOT_FOUND, fmt.Sprintf("model %s has no replica %q; it has: %s", model,
		replica, strings.Join(names, ", ")))
}

// levelsText formats the wanted levels of replicas as "kjv-0 standby, kjv-1 active".
func levelsText(levels map[string]messages.Level) string {
	var all []string
	for _, replica := range slices.Sorted(maps.Keys(levels)) {
		all = append(all, replica+" "+strings.ToLower(strings.TrimPrefix(levels[replica].String(), "LEVEL_")))
	}
	return strings.Join(all, ", ")
}
