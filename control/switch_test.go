package control

import (
	"cmp"
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

	meanwhile func() // happens while the switch is in progress; nil: it has ended
}

func (b *switchBackend) Stored(_ context.Context, name string) (*messages.DeploymentSpec, error) {
	return b.stored[name], nil
}

func (b *switchBackend) OverruleSwitch(_ context.Context, _ GPU, id, replica string) error {
	b.steps = append(b.steps, replica+" overrules")
	if id == b.id {
		b.meanwhile, b.ended = nil, &messages.GpuSwitch{Phase: messages.GpuState_GPU_STATE_SERVING,
			Failure: replica + " was activated", Reason: messages.Reason_REASON_CONFLICT}
	}
	return nil
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
	if b.meanwhile != nil {
		b.meanwhile()
		return &messages.GpuSwitch{Id: b.id, Phase: messages.GpuState_GPU_STATE_DRAINING}, nil
	}
	s := proto.CloneOf(b.ended)
	s.Id = b.id
	return s, nil
}

// TestSwitchIsUndone checks that a switch that fails, or whose actor has restarted, restores the
// levels and the holds, and that one that succeeds keeps them.
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
			"a": {Name: "a", Replicas: new(uint32(1)), HeldBy: &messages.Hold{What: "models.scale"}},
			"b": {Name: "b", Level: messages.Level_LEVEL_STANDBY},
		}}
		c := &control{Config: Config{Backend: b, Runtime: supervise.System}}
		_, err := c.switchGpu(t.Context(), &messages.SwitchGpuRequest{Node: "n", Name: "gpu-0", To: "b"})
		var r Refusal
		if got := strings.Join(b.steps, "; "); got != tc.steps || errors.As(err, &r) != (tc.reason != 0) ||
			err != nil && r.GetReason() != tc.reason {
			t.Errorf("%s: %s; %v", name, got, err)
		}
		want := map[bool]string{true: "gpus.switch", false: "models.scale"}[tc.reason == 0]
		if got := b.stored["a"].GetHeldBy().GetWhat(); got != want {
			t.Errorf("%s: held by %s, want %s", name, got, want)
		}
	}
}

// TestSwitchIsOverruled stores levels while a switch is in progress. The switch ends at once, and what
// was stored meanwhile stays. A replica that has to leave may also be parked.
func TestSwitchIsOverruled(t *testing.T) {
	const active, standby = messages.Level_LEVEL_ACTIVE, messages.Level_LEVEL_STANDBY
	for name, tc := range map[string]struct {
		model string
		level messages.Level
		polls int // before the switch ends by itself
		steps string
	}{
		"one that leaves is activated": {"a", active, 0, "a-0 overrules; b LEVEL_STANDBY"},
		"one that leaves is parked":    {"a", messages.Level_LEVEL_PARKED, 3, ""},
		"the one that comes is not to serve": {"b", standby, 0,
			"b-0 overrules; a LEVEL_ACTIVE"},
	} {
		b := &switchBackend{ended: &messages.GpuSwitch{Phase: messages.GpuState_GPU_STATE_SERVING},
			stored: map[string]*messages.DeploymentSpec{
				"a": {Name: "a"}, "b": {Name: "b", Level: messages.Level_LEVEL_STANDBY},
			}}
		polls := 0
		b.meanwhile = func() {
			b.stored[tc.model] = withLevel(b.stored[tc.model], tc.model+"-0", tc.level)
			if polls++; polls == cmp.Or(tc.polls, 20) {
				b.meanwhile = nil
			}
		}
		c := &control{Config: Config{Backend: b, Runtime: supervise.System}}
		_, err := c.switchGpu(t.Context(), &messages.SwitchGpuRequest{Node: "n", Name: "gpu-0", To: "b"})
		const begun = "switch to b-0 from a-0; b LEVEL_ACTIVE; a LEVEL_STANDBY"
		got, _ := strings.CutPrefix(strings.Join(b.steps, "; "), begun)
		var r Refusal
		conflict := errors.As(err, &r) && r.GetReason() == messages.Reason_REASON_CONFLICT
		if strings.TrimPrefix(got, "; ") != tc.steps || conflict != (tc.polls == 0) || !conflict && err != nil {
			t.Errorf("%s: %s; %v", name, got, err)
		}
		if at := b.stored[tc.model].LevelOf(tc.model + "-0"); at != tc.level {
			t.Errorf("%s: it is at %s", name, at)
		}
	}
}
