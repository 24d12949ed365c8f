package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
)

const (
	switchEndpoint = "gpus-switch"
	switchCommand  = "gpus.switch"
	// switchTimeout is how long the replicas that leave may finish their sequences.
	switchTimeout = time.Minute
	undoTimeout   = 10 * time.Second
	switchPoll    = 20 * time.Millisecond
)

// party is a replica that takes part in a switch, and its wanted level before.
type party struct {
	model, replica string
	before, after  messages.Level
	held           *messages.Hold // before
}

// switchGpu makes a model serve on a GPU where it has a replica, and puts the replicas of other models
// there on standby. The gpu actor follows the switch; the levels are stored here.
func (c *control) switchGpu(ctx context.Context, req *messages.SwitchGpuRequest) (*messages.SwitchGpuResponse, error) {
	if err := cmp.Or(requireGpu(req), checkHold(req.GetHold())); err != nil {
		return nil, err
	}
	to, leave, err := c.parties(ctx, req)
	if err != nil {
		return nil, err
	}
	s := &messages.SwitchGpu{
		RequestId: c.Runtime.ID(), To: to.replica, Timeout: durationpb.New(switchTimeout),
	}
	for _, p := range leave {
		s.Leave = append(s.Leave, p.replica)
	}
	if err := c.Backend.SwitchGpu(ctx, req, s); err != nil {
		return nil, err
	}
	all := append([]party{to}, leave...)
	var ended *messages.GpuSwitch
	hold := HoldBy(ctx, switchCommand, req.GetHold(), c.Runtime.Now())
	if err = c.setLevels(ctx, all, hold); err == nil {
		ended, err = c.awaitSwitch(ctx, req, s.GetRequestId(), all)
	}
	if err == nil {
		return &messages.SwitchGpuResponse{Switch: ended}, nil
	}
	life, cancel := c.Runtime.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if undone := c.undo(life, all); undone != nil {
		return nil, fmt.Errorf("%w; the levels of the replicas were not restored: %w", err, undone)
	}
	return nil, err
}

// parties returns the replica of the model on a GPU, and those of other models that serve there.
func (c *control) parties(ctx context.Context, req *messages.SwitchGpuRequest) (to party, leave []party, err error) {
	if req.GetTo() == "" {
		return to, nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			`to is missing; send {"node": "…", "name": "gpu-0", "to": "…"} with the model that is to serve`)
	}
	all, err := c.Backend.Deployments(ctx)
	if err != nil {
		return to, nil, err
	}
	known := false
	for _, d := range all {
		model := d.GetSpec().GetName()
		known = known || model == req.GetTo()
		for _, r := range d.GetReplicas() {
			p := party{model: model, replica: r.GetName(), before: d.GetSpec().LevelOf(r.GetName()),
				held: d.GetSpec().GetHeldBy()}
			switch here := r.GetNode() == req.GetNode() && r.GetGpu() == req.GetName(); {
			case !here, preempted(d.GetSpec(), r.GetName()): // it leaves by itself
			case model != req.GetTo() && r.GetLevel() == messages.Level_LEVEL_ACTIVE:
				p.after = messages.Level_LEVEL_STANDBY
				leave = append(leave, p)
			case model == req.GetTo() && to == (party{}):
				p.after = messages.Level_LEVEL_ACTIVE
				to = p
			}
		}
	}
	slices.SortFunc(leave, func(a, b party) int { return cmp.Compare(a.replica, b.replica) })
	switch {
	case !known:
		return to, nil, notDeployed(req.GetTo())
	case to == (party{}):
		device := req.GetNode() + "/" + req.GetName()
		return to, nil, Refusal{&messages.Refused{
			Reason: messages.Reason_REASON_NOT_FOUND,
			Detail: fmt.Sprintf("model %s has no replica on %s; replicas.list shows where it has some, and "+
				"models.scale adds one", req.GetTo(), device),
			NotLoaded: &messages.ModelNotLoaded{Model: req.GetTo(), Device: device},
		}}
	}
	return to, leave, nil
}

// setLevels stores the wanted levels of replicas, and what holds their models.
func (c *control) setLevels(ctx context.Context, all []party, hold *messages.Hold) error {
	for _, p := range all {
		if err := c.setPartyLevel(ctx, p.model, func(stored *messages.DeploymentSpec) *messages.DeploymentSpec {
			next := withLevel(stored, p.replica, p.after)
			next.SetHold(hold)
			return next
		}); err != nil {
			return err
		}
	}
	return nil
}

// undo stores the levels that replicas had before a switch, but those that were changed meanwhile.
func (c *control) undo(ctx context.Context, all []party) error {
	for _, p := range all {
		if err := c.setPartyLevel(ctx, p.model, func(stored *messages.DeploymentSpec) *messages.DeploymentSpec {
			if stored.LevelOf(p.replica) != p.after {
				return nil
			}
			next := withLevel(stored, p.replica, p.before)
			if next.GetHeldBy().GetWhat() == switchCommand { // otherwise held by a later command
				next.SetHold(p.held)
			}
			return next
		}); err != nil {
			return err
		}
	}
	return nil
}

// errKept is the error of a change that leaves a deployment as it is.
var errKept = errors.New("the deployment stays as it is")

// setPartyLevel stores what change returns; nil: the deployment stays as it is.
func (c *control) setPartyLevel(
	ctx context.Context, model string, change func(*messages.DeploymentSpec) *messages.DeploymentSpec,
) error {
	_, err := c.Backend.Update(ctx, model, 0,
		func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
			if stored == nil {
				return nil, notDeployed(model)
			}
			if next := change(stored); next != nil {
				return next, nil
			}
			return nil, errKept
		})
	if errors.Is(err, errKept) {
		return nil
	}
	return err
}

// overruled returns the replica of a switch for which another level was stored since; empty: none. A
// replica that is gone has left. While the store cannot be read, nothing is stored.
func (c *control) overruled(ctx context.Context, all []party) string {
	for _, p := range all {
		stored, err := c.Backend.Stored(ctx, p.model)
		if err == nil && stored != nil && serves(stored.LevelOf(p.replica)) != serves(p.after) {
			return p.replica
		}
	}
	return ""
}

func serves(level messages.Level) bool {
	return level == messages.Level_LEVEL_ACTIVE || level == messages.Level_LEVEL_UNSPECIFIED
}

// awaitSwitch waits until a switch has ended, and ends it if the level of one of its replicas changes.
func (c *control) awaitSwitch(ctx context.Context, at GPU, id string, all []party) (*messages.GpuSwitch, error) {
	for {
		s, err := c.Backend.SwitchOf(ctx, at)
		switch {
		case err != nil:
			return nil, err
		case s.GetId() != id:
			return nil, Refuse(messages.Reason_REASON_NOT_READY, fmt.Sprintf(
				"the actor of %s/%s has restarted during the switch; repeat it", at.GetNode(), at.GetName()))
		case s.GetPhase() == messages.GpuState_GPU_STATE_SERVING && s.GetFailure() != "":
			return nil, Refuse(s.GetReason(), fmt.Sprintf(
				"%s/%s did not switch to %s: %s; what served there serves again", at.GetNode(), at.GetName(), s.GetTo(),
				s.GetFailure()))
		case s.GetPhase() == messages.GpuState_GPU_STATE_SERVING:
			return s, nil
		}
		if replica := c.overruled(ctx, all); replica != "" {
			if err := c.Backend.OverruleSwitch(ctx, at, id, replica); err != nil {
				return nil, err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.Runtime.After(switchPoll):
		}
	}
}
