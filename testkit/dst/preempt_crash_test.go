package dst_test

import (
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestPreemptionSurvivesCrashes crashes each party in each phase of a preemption. No stream is lost, and the
// preemption ends.
// Seeds are chosen so that the phase occurs, and so that the party has something to do in it.
func TestPreemptionSurvivesCrashes(t *testing.T) {
	at := func(model string, deadline time.Duration) dst.Fault {
		return dst.Fault{At: 6 * time.Second, Kind: dst.Preempt, Node: "n0", Model: model, Deadline: deadline,
			Force: true, For: 5 * time.Second}
	}
	for i, phase := range []struct {
		name  string
		fault dst.Fault
	}{
		{"fencing", at("k", time.Second)},
		{"migrating", at("m", time.Second)},
		{"finishing", at("k", 2*time.Second)},
		{"saving", at("k", 0)},
		{"freeing", at("k", 0)},
	} {
		for j, party := range []string{"replica", "router", "deployment", "session", "engine"} {
			name, after := phase.name+"/"+party, (i+j)%2 == 1
			if after {
				name += " after"
			}
			t.Run(name, func(t *testing.T) { crashInPhase(t, phase.name, party, after, phase.fault) })
		}
	}
}

func crashInPhase(t *testing.T, phase, party string, after bool, f dst.Fault) {
	entered, crashed := int64(0), int64(0)
	for seed := uint64(1); seed <= 8 && crashed == 0; seed++ {
		c := &dst.PhaseCrash{Phase: phase, Actor: party, After: after, Model: f.Model}
		o := dst.Options{Seed: seed, Nodes: 3, Calls: 60, Load: 12 * time.Second, Faults: []dst.Fault{f}, PhaseCrash: c}
		for _, wrong := range run(t, o).Failures {
			t.Errorf("seed %d: %s", seed, wrong)
		}
		if c.Ended.Load() == 0 {
			t.Errorf("seed %d: the preemption did not end", seed)
		}
		entered, crashed = entered+c.Entered.Load(), crashed+c.Crashed.Load()
	}
	if entered == 0 || crashed == 0 {
		t.Errorf("the phase was entered %d times, and %d actors crashed in it", entered, crashed)
	}
}
