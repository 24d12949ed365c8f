package costs_test

import (
	"errors"
	"testing"

	"troupe/core/cost"
	"troupe/cuda/simulated"
	"troupe/messages"
	"troupe/node/costs"
)

// TestSteps checks that the costs are those of the model and the kind of device, and that a simulated device
// predicts its own.
func TestSteps(t *testing.T) {
	measured := func(model, device string, fixed float64) cost.Profile {
		return cost.Profile{Device: cost.Device{Name: device}, Model: &cost.Model{Name: model},
			Steps: &cost.Stepped{Steps: cost.Steps{FixedUS: fixed}}}
	}
	on := simulated.Config{Profile: cost.Profile{Device: cost.Device{Name: "NVIDIA H200"}}}
	var broken error
	reads := 0
	c := &costs.Costs{
		Profiles: []cost.Profile{{Device: cost.Device{Name: "L4"}}, measured("other", "L4", 1),
			measured("chat", "L4", 2), measured("chat", "L4", 3)},
		Simulated: []simulated.Config{on},
		Predict: func(path string, _ simulated.Config) (cost.Steps, error) {
			reads++
			return cost.Steps{FixedUS: 9}, broken
		},
	}
	native := &messages.DeploymentSpec{Name: "x", Path: "/models/chat"}
	counted := &messages.DeploymentSpec{Name: "x", Path: "/models/chat",
		Engine: &messages.EngineSpec{Kind: "simulated"}}
	check := func(device string, d *messages.DeploymentSpec, want float64) {
		t.Helper()
		if s, known := c.Steps(device, d, 0); known != (want > 0) || s.FixedUS != want {
			t.Errorf("%s: %v %v, want %v", device, s, known, want)
		}
	}
	check("L4", native, 2)
	check("NVIDIA H200", native, 0)
	check("L4", counted, 0)
	broken = errors.New("no config.json")
	if _, known := c.Steps(on.Name(), counted, 0); known {
		t.Error("costs of a folder that cannot be read")
	}
	broken, reads = nil, 0
	check(on.Name(), counted, 9)
	check(on.Name(), counted, 9)
	if reads != 1 {
		t.Errorf("read %d times", reads)
	}
}
