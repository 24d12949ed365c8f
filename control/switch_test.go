package control

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/messages"
)

// switchBackend has a GPU with a replica of each of two models: a serves, and b is on standby.
type switchBackend struct {
	Backend
	stored map[string]*messages.DeploymentSpec
	ended  *messages.GpuSwitch // answer of SwitchOf but for the id
	id     string
	lose   bool // the actor of the GPU forgets the switch
	steps  []string
}

func (b *switchBackend) Deployments(context.Context) (all []*messages.DeploymentStatus, err error) {
	for _, name := range []string{"a", "b"} {
		level := b.stored[name].LevelOf(name + "-0")
		all = append(all, &messages.DeploymentStatus{Spec: b.stored[name], Replicas: []*messages.ReplicaStatus{
			{Name: name + "-0", Node: "n", Gpu: "gpu-0", Level: level},
		}})
	}
	return all, nil
}

func (b *switchBackend) Update(_ context.Context, name string, _ uint64, change Change) (Updated, error) {
	next, err := change(proto.CloneOf(b.stored[name]))
	if err != nil {
		return Updated{}, err
	}
	b.stored[name] = next
	b.steps = append(b.steps, name+" "+next.LevelOf(name+"-0").String())
	return Updated{}, nil
}

func (b *switchBackend) SwitchGpu(_ context.Context, _ GPU, s *messages.SwitchGpu) error {
	b.id = s.GetRequestId()
	b.steps = append(b.steps, "switch to "+s.GetTo()+" from "+strings.Join(s.GetLeave(), ", "))
	return nil
}

func (b *switchBackend) SwitchOf(context.Context, GPU) (*messages.GpuSwitch, error) {
	if b.lose {
		return nil, nil
	}
	s := proto.CloneOf(b.ended)
	s.Id = b.id
	return s, nil
}

// TestSwitchIsUndone checks that a switch that fails, or whose actor has restarted, restores the
// levels, and that one that succeeds keeps them.
func TestSwitchIsUndone(t *testing.T) {
	const done = messages.GpuState_GPU_STATE_SERVING
	for name, tc := range map[string]struct {
		ended  *messages.GpuSwitch
		lose   bool
		reason messages.Reason
		steps  string
	}{
		"success": {&messages.GpuSwitch{Phase: done}, false, 0,
			"switch to b-0 from a-0; b LEVEL_ACTIVE; a LEVEL_STANDBY"},
		"failure": {&messages.GpuSwitch{Phase: done, Failure: "too late",
			Reason: messages.Reason_REASON_DEADLINE}, false, messages.Reason_REASON_DEADLINE,
			"switch to b-0 from a-0; b LEVEL_ACTIVE; a LEVEL_STANDBY; b LEVEL_STANDBY; a LEVEL_ACTIVE"},
		"activation": {&messages.GpuSwitch{Phase: done, Failure: "a-0 was activated",
			Reason: messages.Reason_REASON_CONFLICT}, false, messages.Reason_REASON_CONFLICT,
			"switch to b-0 from a-0; b LEVEL_ACTIVE; a LEVEL_STANDBY; b LEVEL_STANDBY; a LEVEL_ACTIVE"},
		"restart": {nil, true, messages.Reason_REASON_NOT_READY,
			"switch to b-0 from a-0; b LEVEL_ACTIVE; a LEVEL_STANDBY; b LEVEL_STANDBY; a LEVEL_ACTIVE"},
	} {
		b := &switchBackend{ended: tc.ended, lose: tc.lose, stored: map[string]*messages.DeploymentSpec{
			"a": {Name: "a"}, "b": {Name: "b", Level: messages.Level_LEVEL_STANDBY},
		}}
		c := &control{Config: Config{Backend: b, Runtime: supervise.System}}
		_, err := c.switchGpu(t.Context(), &messages.SwitchGpuRequest{Node: "n", Name: "gpu-0", To: "b"})
		var r Refusal
		if got := strings.Join(b.steps, "; "); got != tc.steps || errors.As(err, &r) != (tc.reason != 0) ||
			err != nil && r.GetReason() != tc.reason {
			t.Errorf("%s: %s; %v", name, got, err)
		}
	}
}
