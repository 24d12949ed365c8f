package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// storeOf is a backend with one stored deployment.
type storeOf struct {
	Backend
	spec   *messages.DeploymentSpec
	parked int // calls of ParkWeights
}

func (b *storeOf) Update(_ context.Context, _ string, _ uint64, change Change) (Updated, error) {
	next, err := change(proto.CloneOf(b.spec))
	if err != nil {
		return Updated{}, err
	}
	done := Updated{Before: b.spec, After: next}
	b.spec = next
	return done, nil
}

func (b *storeOf) Deployment(context.Context, string) (*messages.DeploymentStatus, error) {
	d := &messages.DeploymentStatus{Spec: b.spec}
	for i := range b.spec.Wanted() {
		d.Replicas = append(d.Replicas, &messages.ReplicaStatus{Name: fmt.Sprintf("m-%d", i)})
	}
	return d, nil
}

func (b *storeOf) ParkWeights(string) { b.parked++ }

// TestLevelsWithoutReplicas checks what the commands about levels do with a model that is asleep or
// stopped: it can be activated and parked, and cannot go to standby.
func TestLevelsWithoutReplicas(t *testing.T) {
	for name, tc := range map[string]struct {
		least, most, started uint32
	}{
		"asleep": {0, 3, 1}, "stopped": {2, 3, 2}, "stopped for good": {0, 0, 1},
	} {
		b := &storeOf{spec: &messages.DeploymentSpec{
			Name: "m", Path: "/m", Replicas: new(uint32(0)), MinReplicas: &tc.least, MaxReplicas: &tc.most,
		}}
		c := &control{Config: Config{Backend: b}}
		var refused Refusal
		_, err := c.standbyModel(t.Context(), &messages.StandbyModelRequest{Name: "m"})
		if !errors.As(err, &refused) || refused.GetReason() != messages.Reason_REASON_STOPPED ||
			!strings.Contains(err.Error(), "models.park") {
			t.Errorf("%s, standby: %v", name, err)
		}
		if _, err := c.parkModel(t.Context(), &messages.ParkModelRequest{Name: "m"}); err != nil || b.parked != 1 ||
			b.spec.GetLevel() != messages.Level_LEVEL_PARKED || b.spec.GetReplicas() != 0 {
			t.Errorf("%s, park: %v, %v", name, b.spec, err)
		}
		_, err = c.activateModel(t.Context(), &messages.ActivateModelRequest{Name: "m"})
		if err != nil || b.spec.Held() || b.spec.GetReplicas() != tc.started || b.spec.GetMinReplicas() > tc.started {
			t.Errorf("%s, activate: %v, %v", name, b.spec, err)
		}
	}
}

// TestParkReplica parks one of two replicas. Its level is stored, the weights of the others stay where they
// are, and it can be activated, as can all by a number of replicas. A preempted one cannot be parked.
func TestParkReplica(t *testing.T) {
	b := &storeOf{spec: &messages.DeploymentSpec{Name: "m", Path: "/m", Replicas: new(uint32(2))}}
	c := &control{Config: Config{Backend: b}}
	one := &messages.ParkModelRequest{Name: "m", Replica: "m-1"}
	park := func() {
		t.Helper()
		if _, err := c.parkModel(t.Context(), one); err != nil || b.parked != 0 || b.spec.Wanted() != 1 ||
			b.spec.LevelOf("m-1") != messages.Level_LEVEL_PARKED || !b.spec.Held() || b.spec.Preempted() {
			t.Fatalf("%v, %v", b.spec, err)
		}
	}
	park()
	_, err := c.activateModel(t.Context(), &messages.ActivateModelRequest{Name: "m", Replica: "m-1"})
	if err != nil || b.spec.Held() || b.spec.Wanted() != 2 {
		t.Errorf("%v, %v", b.spec, err)
	}
	park()
	two := &messages.DeploymentSpec{Name: "m", Replicas: new(uint32(2))}
	if s, err := Merge(b.spec, two, nil); err != nil || s.Held() || s.Wanted() != 2 {
		t.Errorf("%v, %v", s, err)
	}
	b.spec.ReplicaLevels = nil
	b.spec.Preemptions = []*messages.Preemption{{Replica: "m-0"}}
	var refused Refusal
	_, err = c.parkModel(t.Context(), &messages.ParkModelRequest{Name: "m", Replica: "m-0"})
	if !errors.As(err, &refused) || refused.GetReason() != messages.Reason_REASON_CONFLICT {
		t.Errorf("preempted: %v", err)
	}
}

// TestEngineOfADeployment checks how the engine of a deployment is normalized and shown, and that a model whose
// backend has no standby cannot go there.
func TestEngineOfADeployment(t *testing.T) {
	spec := &messages.DeploymentSpec{Name: "m", Path: "/m", Engine: &messages.EngineSpec{Kind: "native"}}
	if n, err := Normalize(spec); err != nil || n.Engine != nil {
		t.Errorf("native: %v, %v", n.GetEngine(), err)
	}
	spec.Engine.Kind = "vllm"
	if _, err := Normalize(spec); err == nil ||
		!strings.Contains(err.Error(), `deployment.engine.kind is "vllm"; use native or simulated`) {
		t.Error(err)
	}
	spec.Engine = &messages.EngineSpec{Kind: "simulated", Without: []string{"standby"}}
	n, err := Normalize(spec)
	if err != nil {
		t.Fatal(err)
	}
	before := (&messages.DeploymentSpec{Name: "m", Path: "/m"}).Complete()
	if text := ChangesText(Changes(before, n)); text != "engine simulated without standby" {
		t.Error(text)
	}
	c := &control{Config: Config{Backend: &storeOf{spec: n}}}
	var refused Refusal
	_, err = c.standbyModel(t.Context(), &messages.StandbyModelRequest{Name: "m"})
	if !errors.As(err, &refused) || refused.GetReason() != messages.Reason_REASON_UNSUPPORTED ||
		!strings.Contains(err.Error(), "the simulated backend does not support standby (standby)") {
		t.Error(err)
	}
	n.Engine.Without = nil
	if _, err := c.standbyModel(t.Context(), &messages.StandbyModelRequest{Name: "m"}); err != nil {
		t.Error(err)
	}
}
