package control

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
)

// held returns a control service with one deployment, of 1 to most replicas, and the context of a caller.
func held(t *testing.T, most uint32) (*control, *storeOf) {
	t.Helper()
	b := &storeOf{spec: (&messages.DeploymentSpec{Name: "m", Path: "/m", Replicas: new(uint32(1)),
		MinReplicas: new(uint32(1)), MaxReplicas: new(most)}).Complete()}
	return &control{Config: Config{Backend: b}}, b
}

// TestScaleHolds checks that a number of replicas that an operator sets is held, with who and what, unless
// the number is fixed or 0, and that a change of the bounds and models.release end the hold.
func TestScaleHolds(t *testing.T) {
	ctx := withCaller(t.Context(), "ops")
	c, b := held(t, 4)
	scale := func(replicas uint32) *messages.ScaleModelResponse {
		t.Helper()
		done, err := c.scaleModel(ctx, &messages.ScaleModelRequest{Name: "m", Replicas: new(replicas)})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	done := scale(3)
	if h := b.spec.GetHeldBy(); h.GetWho() != "ops" || h.GetWhat() != "models.scale" || h.GetAt() == nil ||
		h.GetUntil() != nil || !b.spec.Held() {
		t.Errorf("%v", b.spec)
	}
	want := "replicas from 1 to 3, held_by models.scale by ops"
	if got := ChangesText(done.GetChanges()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if scale(0); b.spec.Held() {
		t.Errorf("held without replicas: %v", b.spec)
	}
	scale(2)
	for _, change := range []*messages.DeploymentSpec{
		{Name: "m", MaxReplicas: new(uint32(5))}, {Name: "m", MinReplicas: new(uint32(2))},
		{Name: "m", Replicas: new(uint32(2))},
	} {
		if next, err := applyChange(b.spec, change, nil); err != nil || next.Held() {
			t.Errorf("after %v: %v, %v", change, next, err)
		}
	}
	if next, err := applyChange(b.spec, &messages.DeploymentSpec{Name: "m"}, []string{"max_replicas"}); err != nil ||
		next.Held() {
		t.Errorf("after a reset: %v, %v", next, err)
	}
	next, err := applyChange(b.spec, &messages.DeploymentSpec{Name: "m", MaxWaiting: new(uint32(5))}, nil)
	if err != nil || !next.Held() {
		t.Errorf("another change ended the hold: %v, %v", next, err)
	}
	released, err := c.releaseModel(ctx, &messages.ReleaseModelRequest{Name: "m"})
	if err != nil || b.spec.Held() || b.spec.GetReplicas() != 2 || len(released.GetChanges()) != 1 {
		t.Errorf("%v, %v", released, err)
	}
	c, b = held(t, 1)
	if scale(2); b.spec.Held() || b.spec.GetMaxReplicas() != 2 {
		t.Errorf("a fixed number is held: %v", b.spec)
	}
}

// TestHoldFor checks that a hold has the time that was asked for, and that a time that makes no sense is
// refused by the name of its field.
func TestHoldFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := held(t, 4)
		_, err := c.scaleModel(t.Context(), &messages.ScaleModelRequest{Name: "m", Replicas: new(uint32(2)),
			Hold: durationpb.New(10 * time.Minute)})
		if until := b.spec.GetHeldBy().GetUntil().AsTime(); err != nil || !until.Equal(time.Now().Add(10*time.Minute)) {
			t.Errorf("until %s: %v", until, err)
		}
		if got, want := b.spec.HeldByText(), "models.scale until 2000-01-01T00:10:00Z"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for _, hold := range []time.Duration{0, -time.Second, maxHold + 1} {
			_, err := c.standbyModel(t.Context(), &messages.StandbyModelRequest{Name: "m", Hold: durationpb.New(hold)})
			var refused Refusal
			if !errors.As(err, &refused) || refused.GetReason() != messages.Reason_REASON_INVALID_ARGUMENT ||
				!strings.HasPrefix(err.Error(), "hold is ") {
				t.Errorf("%s: %v", hold, err)
			}
		}
		_, err = c.scaleModel(t.Context(), &messages.ScaleModelRequest{Name: "m", Replicas: new(uint32(0)),
			Hold: durationpb.New(time.Minute)})
		if err == nil || !strings.HasPrefix(err.Error(), "hold: model m is to have no replicas") {
			t.Error(err)
		}
	})
}

// TestLevelsHold checks that a level is held until the model is active again, or released.
func TestLevelsHold(t *testing.T) {
	ctx := withCaller(t.Context(), "ops")
	c, b := held(t, 4)
	for name, command := range map[string]func() error{
		"models.standby": func() error {
			_, err := c.standbyModel(ctx, &messages.StandbyModelRequest{Name: "m"})
			return err
		},
		"models.park": func() error {
			_, err := c.parkModel(ctx, &messages.ParkModelRequest{Name: "m"})
			return err
		},
	} {
		if err := command(); err != nil || b.spec.HeldByText() != name+" by ops" {
			t.Errorf("%s: %q, %v", name, b.spec.HeldByText(), err)
		}
		wide, err := applyChange(b.spec, &messages.DeploymentSpec{Name: "m", MaxReplicas: new(uint32(9))}, nil)
		if err != nil || wide.HeldByText() != name+" by ops" {
			t.Errorf("%s: the hold of a level ended: %v, %v", name, wide, err)
		}
		if _, err := c.activateModel(ctx, &messages.ActivateModelRequest{Name: "m"}); err != nil || b.spec.Held() {
			t.Errorf("active again: %v, %v", b.spec, err)
		}
		if err := command(); err != nil {
			t.Error(err)
		}
		if _, err := c.releaseModel(ctx, &messages.ReleaseModelRequest{Name: "m"}); err != nil || b.spec.Held() {
			t.Errorf("released: %v, %v", b.spec, err)
		}
	}
	if _, err := c.scaleModel(ctx, &messages.ScaleModelRequest{Name: "m", Replicas: new(uint32(2))}); err != nil {
		t.Fatal(err)
	}
	_, err := c.activateModel(ctx, &messages.ActivateModelRequest{Name: "m", Replica: "m-0"})
	if err != nil || b.spec.HeldByText() != "models.scale by ops" {
		t.Errorf("an active replica was activated: %q, %v", b.spec.HeldByText(), err)
	}
	_, err = c.activateModel(ctx, &messages.ActivateModelRequest{Name: "m", Hold: durationpb.New(time.Hour)})
	if err != nil || b.spec.GetHeldBy().GetWhat() != "models.activate" {
		t.Errorf("%v, %v", b.spec, err)
	}
}

// TestSetHold checks that a deployment without replicas is held by a level only: a request must be able to wake it.
func TestSetHold(t *testing.T) {
	by := &messages.Hold{What: "gpus.switch"}
	for _, c := range []struct {
		replicas uint32
		level    messages.Level
		want     *messages.Hold
	}{{1, messages.Level_LEVEL_UNSPECIFIED, by}, {0, messages.Level_LEVEL_UNSPECIFIED, nil},
		{0, messages.Level_LEVEL_PARKED, by}} {
		s := &messages.DeploymentSpec{Replicas: &c.replicas, Level: c.level,
			HeldBy: &messages.Hold{What: "models.scale"}}
		if s.SetHold(by); s.GetHeldBy() != c.want {
			t.Errorf("%d replicas, %v: held by %v, want %v", c.replicas, c.level, s.GetHeldBy(), c.want)
		}
	}
}

// TestPreemptHolds checks that a preemption is held with its author, and that released replicas come back.
func TestPreemptHolds(t *testing.T) {
	_, b := held(t, 4)
	b.spec.Replicas = new(uint32(2))
	hold := HoldBy(withCaller(t.Context(), "ops"), "replicas.preempt", nil, time.Unix(0, 0))
	spec, err := Preempt(b.spec, &messages.ReplicaStatus{Name: "m-1", Model: "m"}, &messages.PreemptReplicaRequest{},
		"p", hold, time.Unix(0, 0))
	if err != nil || spec.HeldByText() != "replicas.preempt by ops" || spec.Wanted() != 1 {
		t.Fatalf("%v, %v", spec, err)
	}
	if free := spec.Release(); free.Held() || free.Wanted() != 2 || !spec.Held() {
		t.Errorf("%v", free)
	}
}
