package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestPreempt preempts replicas, while the actors that take part and nodes crash, sequences migrate,
// models go to standby and are parked, and replicas are scaled.
func TestPreempt(t *testing.T) {
	scenario(t, dst.Options{
		Count: 24,
		Kinds: []dst.FaultKind{
			dst.Preempt, dst.Preempt, dst.Preempt, dst.Preempt, dst.Preempt, dst.CrashActor, dst.CrashActor,
			dst.CrashActor, dst.CrashNode, dst.Migrate, dst.Scale, dst.Restart, dst.Standby, dst.Park, dst.Cut,
		},
		Actors: []string{"replica", "replica", "router", "deployment", "deployment", "session", "engine", "deployments",
			"replicas", "gpu", "tier", "hbm", "gateway"},
	}, 1, 2)
}

// TestPreemptPaused preempts replicas whose nodes pause in one of the phases.
func TestPreemptPaused(t *testing.T) {
	const at = 6 * time.Second
	for model, indices := range map[string][]int{"k": {0, 3, 4}, "m": {1, 2}} {
		for _, i := range indices {
			node, after := nodeNames[i%len(nodeNames)], time.Duration(8*i)
			o := dst.Options{Nodes: 3, Calls: 60, Load: 12 * time.Second, Seed: uint64(1 + i), Faults: []dst.Fault{
				{At: at, Kind: dst.Preempt, Node: node, Model: model, Force: true, For: 8 * time.Second},
				{At: at + after*time.Millisecond, Kind: dst.Pause, Node: node, For: 1400 * time.Millisecond},
			}}
			for _, wrong := range run(t, o).Failures {
				t.Errorf("%s paused %v after the preemption of %s: %s", node, after*time.Millisecond, model, wrong)
			}
		}
	}
}

// TestPreemptBeforeStandby preempts a replica of each model, and puts the models on standby at the same
// time. Requests that had no output yet wait for the activation; run checks that none of them is refused.
func TestPreemptBeforeStandby(t *testing.T) {
	for seed := uint64(2); seed <= 3; seed++ {
		o := dst.Options{Nodes: 3, Calls: 240, Load: 6 * time.Second, Seed: seed, Faults: []dst.Fault{}}
		for _, at := range []time.Duration{2 * time.Second, 4 * time.Second} {
			for _, model := range []string{"k", "m"} {
				o.Faults = append(o.Faults,
					dst.Fault{At: at, Kind: dst.Preempt, Node: "n0", Model: model, For: time.Second},
					dst.Fault{At: at + 2*time.Millisecond, Kind: dst.Standby, Node: "n0", Model: model,
						For: time.Second})
			}
		}
		for _, wrong := range run(t, o).Failures {
			t.Errorf("seed %d: %s", seed, wrong)
		}
	}
}
