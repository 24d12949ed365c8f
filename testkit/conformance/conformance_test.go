package conformance_test

import (
	"path/filepath"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/gpu"
	"troupe/actors/kvblock"
	"troupe/actors/model/replica"
	"troupe/actors/model/stepper"
	"troupe/actors/supervise"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/simulated"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	engines "troupe/engine/simulated"
	"troupe/internal/costfile"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/conformance"
)

// replicas starts replicas, each on a device of its own, with a gpu actor and what is in the memory of the device.
func replicas(open func() (cuda.Device, error), loader engine.Loader, path string) func(*testing.T, *actor.ActorSystem,
	*messages.EngineSpec, *actor.PID) *actor.PID {
	return func(t *testing.T, sys *actor.ActorSystem, spec *messages.EngineSpec, deployment *actor.PID) *actor.PID {
		device, err := open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { device.Close() })
		models, strategy := residency.NewStore(device, loader), supervise.Strategy(nil)
		on := testkit.Spawn(t, sys, "gpu-0", strategy, gpu.Props(gpu.Config{
			Node: "a", Name: "gpu-0", Info: device.Info(), Models: models, Strategy: strategy, Log: zerolog.Nop(),
			HBM: kvblock.Props(kvblock.Config{Device: "gpu-0"}), Publish: func(_, _, _ string) {},
		}))
		return testkit.Spawn(t, sys, "m-0", strategy, replica.Props(replica.Config{
			Spec: &messages.ReplicaSpec{Name: "m-0", Model: "m", Path: path, Gpu: "gpu-0", BlockTokens: 16,
				MaxSequences: 8, MaxWaiting: 8, StepTokens: 64, Engine: spec},
			GPU: on, HBM: actor.NewPID(on.GetAddress(), on.GetId()+"/hbm"), Deployment: deployment, Strategy: strategy,
			Engine: func(handle string, gate func(uint64) (engine.Gate, error)) *actor.Props {
				return stepper.Props(stepper.Config{GPU: on, Lease: "m-0", Gate: gate,
					Open: func() (engine.Engine, error) { return models.Open(handle) }})
			},
		}))
	}
}

func TestNative(t *testing.T) {
	open := func() (cuda.Device, error) { return host.Open(host.Config{MemoryBytes: 256 << 20}) }
	conformance.Run(t, conformance.Replicas{Start: replicas(open, llama.Loader{}, testkit.Model())})
}

// TestSimulated checks simulated replicas with all capabilities of their kind, and without some.
func TestSimulated(t *testing.T) {
	profile, err := costfile.Read("h200")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(testkit.Root(), "examples", "simulated", "shape-8b")
	for name, without := range map[string][]string{
		"": nil, "without resume": {"resume"}, "without standby and KV events": {"standby", "kv_events"},
	} {
		t.Run("simulated "+name, func(t *testing.T) {
			open := func() (cuda.Device, error) { return simulated.Open(simulated.Config{Profile: profile}) }
			conformance.Run(t, conformance.Replicas{
				Engine: &messages.EngineSpec{Kind: "simulated", Without: without},
				Start:  replicas(open, engines.Loader{Clock: supervise.System}, path),
			})
		})
	}
}
