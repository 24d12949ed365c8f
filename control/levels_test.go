package control

import (
	"context"
	"errors"
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
