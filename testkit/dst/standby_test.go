package dst_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestStandby puts models and single replicas on standby and activates them, while actors and nodes
// crash, sequences migrate, and files are replaced.
func TestStandby(t *testing.T) {
	scenario(t, dst.Options{
		Count: 14,
		Kinds: []dst.FaultKind{
			dst.Standby, dst.Standby, dst.Standby, dst.Standby, dst.CrashActor, dst.CrashActor, dst.CrashNode,
			dst.Migrate, dst.Restart, dst.Scale, dst.Redeploy,
		},
		Actors: []string{"replica", "gpu", "engine", "deployment", "replicas", "router"},
	}, 3, 9)
}

// TestSwitch switches devices between models that have replicas there, while actors and nodes crash.
func TestSwitch(t *testing.T) {
	scenario(t, dst.Options{
		Count: 14,
		Kinds: []dst.FaultKind{
			dst.Switch, dst.Switch, dst.Switch, dst.Switch, dst.Standby, dst.CrashActor, dst.CrashActor, dst.CrashNode,
			dst.Restart, dst.Migrate,
		},
		Actors: []string{"replica", "gpu", "engine", "deployment", "replicas", "router"},
	}, 1, 2)
}

// sharedDevices gives the model m a replica on each node, so that it shares a device with k.
func sharedDevices() []dst.Fault {
	return []dst.Fault{{Kind: dst.Scale, Node: "n0", Model: "m", Count: 3}}
}

// TestSwitchActivated activates the models that have to leave a device at several times after a switch
// has begun. Some of the switches fail because of that.
func TestSwitchActivated(t *testing.T) {
	failed := false
	for seed := uint64(1); seed <= 8 && !failed; seed++ {
		o := dst.Options{Seed: seed, Nodes: 3, Calls: 60, Load: 12 * time.Second, Faults: sharedDevices()}
		for i := range 20 {
			to, other := "k", "m"
			if i%2 == 1 {
				to, other = other, to
			}
			at := time.Second + time.Duration(i)*500*time.Millisecond
			o.Faults = append(o.Faults,
				dst.Fault{At: at, Kind: dst.Switch, Node: "n0", Model: to, For: 400 * time.Millisecond},
				dst.Fault{At: at, Kind: dst.Standby, Node: "n0", Model: other,
					For: time.Duration(5+5*i) * time.Millisecond})
		}
		r := run(t, o)
		for _, wrong := range r.Failures {
			t.Errorf("seed %d: %s", seed, wrong)
		}
		failed = slices.ContainsFunc(r.Transitions, func(row string) bool {
			return strings.HasPrefix(row, "switching: ") && strings.HasSuffix(row, " activated")
		})
		t.Logf("seed %d: a switch failed: %t", seed, failed)
	}
	if !failed {
		t.Error("no switch failed because of an activation")
	}
}

// TestSwitchUnreceived activates the models that have to leave while no deployment can notify their
// replicas, since the nodes that led them have crashed. No switch waits for its deadline.
func TestSwitchUnreceived(t *testing.T) {
	overruled := false
	for seed := uint64(2); !overruled && seed <= 20; seed++ {
		o := dst.Options{Seed: seed, Nodes: 3, Calls: 60, Load: 12 * time.Second, Faults: sharedDevices()}
		for i := range 5 {
			to, other := "k", "m"
			if i%2 == 1 {
				to, other = other, to
			}
			at := 2*time.Second + time.Duration(i)*2*time.Second
			for _, node := range []string{"n1", "n2"} {
				o.Faults = append(o.Faults,
					dst.Fault{At: at, Kind: dst.CrashNode, Node: node, For: 300 * time.Millisecond})
			}
			o.Faults = append(o.Faults,
				dst.Fault{At: at + time.Millisecond, Kind: dst.Switch, Node: "n0", Model: to,
					For: 1500 * time.Millisecond},
				dst.Fault{At: at + time.Millisecond, Kind: dst.Standby, Node: "n0", Model: other,
					For: 20 * time.Millisecond})
		}
		r := run(t, o)
		for _, wrong := range r.Failures {
			t.Errorf("seed %d: %s", seed, wrong)
		}
		for _, row := range r.Transitions {
			if event, of := strings.CutPrefix(row, "switching: "); of {
				overruled = overruled || strings.HasSuffix(event, " overruled")
				if strings.HasSuffix(event, " deadline") {
					t.Errorf("seed %d: a switch waited for its deadline: %s", seed, event)
				}
			}
		}
	}
	if !overruled {
		t.Error("no switch failed because of a stored level")
	}
}
