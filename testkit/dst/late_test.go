package dst_test

import (
	"slices"
	"testing"
	"time"

	"troupe/testkit/dst"
)

// each returns a fault of each node, 1 s after the start of the load.
func each(f dst.Fault) (all []dst.Fault) {
	for _, f.Node = range nodeNames {
		f.At = time.Second
		all = append(all, f)
	}
	return all
}

// lateTick lets three ticks of each planner be later than the answers that it awaits may be.
var lateTick = each(dst.Fault{Kind: dst.HoldActor, Actor: "node/planner", Message: "*planner.tick",
	For: 11 * time.Second, Count: 3})

// slowStore lets a write take 300 ms, which is longer than the shortest time between two ticks of a planner.
var slowStore = each(dst.Fault{Kind: dst.SlowStore, For: 40 * time.Second, Count: 150})

// TestLateTick lets planners be late while they acquire the lease, and while they store a plan. The answers are
// there when they notice that the time for them has passed.
func TestLateTick(t *testing.T) {
	for row, f := range map[string]dst.Fault{
		"planner: acquiring tick (no answer in time)": {Kind: dst.LoseLease},
		"planner: storing tick (no answer in time)":   {Kind: dst.Scale, Model: "m", Count: 3},
	} {
		f.At, f.Node = 2*time.Second, "n0"
		faults := slices.Concat(slowStore, lateTick, []dst.Fault{f})
		reaches(t, dst.Options{Calls: 60, Load: 12 * time.Second, Faults: faults}, row)
	}
}

// TestLateView lets the router be late with the view of the cluster for which a planner has asked: it comes too
// late, or in a later round, since the planner was late too and has been asked for a plan meanwhile.
func TestLateView(t *testing.T) {
	view := func(late time.Duration, count int) (all []dst.Fault) {
		for i := range 240 {
			all = append(all, dst.Fault{At: time.Duration(i) * 150 * time.Millisecond, Kind: dst.AskPlan,
				Node: nodeNames[i%len(nodeNames)], Model: "m"})
		}
		return append(all, each(dst.Fault{Kind: dst.HoldActor, Actor: "node/router", Message: "GetClusterView",
			For: late, Count: count})...)
	}
	o := dst.Options{Calls: 60, Load: 12 * time.Second, Faults: view(3*time.Second, 1)}
	reaches(t, o, "planner: observing viewed (no answer)")
	o.Faults = append(view(1900*time.Millisecond, 10), lateTick...)
	reaches(t, o, "planner: observing viewed (of another round)")
}

// TestLatePlan lets a planner lose its lease while it makes a plan.
func TestLatePlan(t *testing.T) {
	o := dst.Options{Calls: 60, Load: 12 * time.Second}
	o.Faults = append(each(dst.Fault{Kind: dst.HoldActor, Actor: "node/planner", Message: "*planner.made",
		For: 4 * time.Second}),
		dst.Fault{At: 2 * time.Second, Kind: dst.Scale, Node: "n0", Model: "m", Count: 3},
		dst.Fault{At: 3 * time.Second, Kind: dst.LoseLease, Node: "n0"})
	reaches(t, o, "planner: planning planned (its term has ended)")
}

// TestFencedDeployment isolates the node of each deployment, so that another one leads it. When the node is back,
// the deployment continues to command for a while, since the actor that stops it is late. Its replicas refuse the
// commands, because their term has ended.
func TestFencedDeployment(t *testing.T) {
	o := dst.Options{Calls: 80, Load: 38 * time.Second}
	for i, node := range nodeNames {
		at := time.Duration(1+12*i) * time.Second
		o.Faults = append(o.Faults,
			dst.Fault{At: at, Kind: dst.Isolate, Node: node, For: 6 * time.Second},
			dst.Fault{At: at, Kind: dst.HoldActor, Node: node, Actor: "node/deployments",
				Message: "*deployment.syncTick", For: 9 * time.Second})
	}
	reaches(t, o, "deployment: outdated")
}
