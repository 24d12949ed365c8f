package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestPlanner lets the planner choose the numbers of replicas, while it crashes, loses its lease, and the
// store is away or slow.
func TestPlanner(t *testing.T) {
	scenario(t, dst.Options{
		Count: 16, Calls: 120, Elastic: true, Actors: []string{"planner", "planner", "router", "deployment"},
		Kinds: []dst.FaultKind{
			dst.CrashActor, dst.CrashActor, dst.CrashInJob, dst.Outage, dst.Isolate, dst.SlowStore, dst.StallStore,
			dst.CrashNode, dst.LoseAnswer,
		},
	}, 1, 2)
}

// TestPlannerSteps injects faults into each step of the planner that leads: it and its node crash, it loses
// its lease with or without noticing, the answers of the store are lost between two writes of a plan, and
// operators change what it has planned.
func TestPlannerSteps(t *testing.T) {
	seen := scenario(t, dst.Options{
		Count: 24, Calls: 60, Steps: true, Elastic: true,
		Actors: []string{"planner", "deployment", "router", "gpu", "replica"},
		Kinds: []dst.FaultKind{
			dst.CrashActor, dst.CrashActor, dst.CrashNode, dst.LoseAnswer, dst.LoseAnswer, dst.Outage, dst.Isolate,
			dst.Scale, dst.Scale, dst.LoseLease, dst.LoseLease, dst.LoseLease, dst.PausePlanner, dst.Redeploy,
			dst.Pause, dst.Delete, dst.Drain, dst.AskPlan,
		},
	}, 4, 5)
	for _, step := range dst.PlanSteps() {
		if *firstSeed == 0 && *pick == 0 && seen[dst.FaultsIn(step)] == 0 {
			t.Errorf("no fault was injected in the step %q", step)
		}
	}
}

// TestTwoPlanners lets a planner go on for a while after another one has begun to lead, while operators change what
// is wanted. It must not store anything over what the other one has stored.
func TestTwoPlanners(t *testing.T) {
	o := dst.Options{Calls: 40, Load: 24 * time.Second}
	for i := range 6 {
		at := time.Duration(1+4*i) * time.Second
		o.Faults = append(o.Faults, dst.Fault{At: at, Kind: dst.LoseLease, Node: "n0", For: 3 * time.Second})
		for j := range 4 {
			at += 700 * time.Millisecond
			o.Faults = append(o.Faults, dst.Fault{At: at, Kind: dst.Scale, Node: "n0", Model: "m", Count: 3 - j%2})
		}
	}
	reaches(t, o, "planner: observing viewed (a later term has planned)")
}

// TestRestartAfterScaleDown restarts the replicas of a model long after some were withdrawn. None of those loads its
// model again.
func TestRestartAfterScaleDown(t *testing.T) {
	o := dst.Options{Calls: 40, Load: 24 * time.Second, Faults: []dst.Fault{
		{Kind: dst.Scale, Node: "n0", Model: "m", Count: 3},
		{At: 3 * time.Second, Kind: dst.Scale, Node: "n0", Model: "m", Count: 1}}}
	for _, node := range nodeNames {
		o.Faults = append(o.Faults, dst.Fault{At: 22 * time.Second, Kind: dst.Restart, Node: node, Model: "m"})
	}
	scenario(t, o, 1, 2)
}

// TestOldPlans brings back older plans: a bucket loses its last revisions, or an operator restores a deployment
// with the replicas that it had earlier.
func TestOldPlans(t *testing.T) {
	scenario(t, dst.Options{
		Count: 16, Steps: true, Elastic: true, Actors: []string{"planner"},
		Kinds: []dst.FaultKind{
			dst.RestoreOld, dst.RestoreOld, dst.RollBack, dst.LoseBucket, dst.Scale, dst.Drain, dst.LoseLease,
			dst.CrashNode, dst.CrashActor,
		},
	}, 4)
}

// crowdBytes is the memory of a device that has room for the minimums and half of the crowd.
const crowdBytes = 32 << 20

// TestCrowd has more models than fit, all of which requests wait for.
func TestCrowd(t *testing.T) {
	seen := scenario(t, dst.Options{Calls: 60, Crowd: 6, DeviceBytes: crowdBytes, Faults: []dst.Fault{}}, 4, 5)
	t.Log(seen)
	for _, what := range []string{"replicas displaced", "models refused"} {
		if *firstSeed == 0 && *pick == 0 && seen[what] == 0 {
			t.Errorf("never: %s", what)
		}
	}
}

// TestCrowdFaults does so while nodes, devices and actors fail, and loads fail.
func TestCrowdFaults(t *testing.T) {
	scenario(t, dst.Options{
		Count: 12, Calls: 60, Crowd: 6, DeviceBytes: crowdBytes, Steps: true,
		Actors: []string{"planner", "deployment", "deployments", "gpu", "replica", "router"},
		Kinds: []dst.FaultKind{
			dst.CrashActor, dst.CrashActor, dst.CrashNode, dst.LoseDevice, dst.FailLoads, dst.LoseAnswer,
			dst.LoseLease, dst.Drain, dst.Outage,
		},
	}, 1)
}
