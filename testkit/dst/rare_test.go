package dst_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/testkit/dst"
)

// These scenarios reach rows of transition tables that random faults reach with few seeds only: one message
// must be later than another one by as much as an actor seldom is.

// reaches runs a cluster with the seed of the options, or with seed 1, and checks that the rows
// of transition tables apply. A row may begin with its state.
func reaches(t *testing.T, o dst.Options, rows ...string) {
	t.Helper()
	seeds := []uint64{cmp.Or(o.Seed, 1)}
	if *firstSeed != 0 {
		seeds = []uint64{*firstSeed}
	}
	for i := range *wide {
		seeds = append(seeds[:i], *from+i)
	}
	for _, o.Seed = range seeds {
		o.Nodes = cmp.Or(o.Nodes, 3)
		r := run(t, alone(t, o))
		for _, wrong := range r.Failures {
			t.Errorf("seed %d: %s", o.Seed, wrong)
		}
		for _, row := range rows {
			if !slices.ContainsFunc(r.Transitions, func(transition string) bool { return isOf(transition, row) }) {
				t.Errorf("seed %d: %q did not apply", o.Seed, row)
			}
		}
	}
}

// isOf reports whether a transition is one of a row.
func isOf(transition, row string) bool {
	table, event, _ := strings.Cut(row, ": ")
	of, is := strings.CutPrefix(transition, table+": ")
	return is && strings.HasSuffix(" "+of, " "+event)
}

// nodeNames are the names of the nodes.
var nodeNames = []string{"n0", "n1", "n2"}

// TestDeadlineInQueue pauses the planner while requests wait for models that sleep, until their deadlines.
// Their sessions are slow, so that the router notices first that a deadline has passed.
func TestDeadlineInQueue(t *testing.T) {
	o := dst.Options{Calls: 60, Load: 10 * time.Second, Crowd: 3,
		Faults: []dst.Fault{{Kind: dst.PausePlanner, Node: "n0", For: time.Minute}}}
	for _, node := range nodeNames {
		o.Faults = append(o.Faults, dst.Fault{Kind: dst.HoldActor, Node: node, Actor: "node/direct/session-",
			Message: "RouteSequenceResult", For: 1800 * time.Millisecond, Count: 10_000})
	}
	reaches(t, o, "wake: tick (its deadline passed)")
}

// TestRestartsWithoutToken restarts all replicas again and again before they have computed a token. Their
// requests fail, instead of waiting without end.
func TestRestartsWithoutToken(t *testing.T) {
	o := dst.Options{Calls: 40, Load: 3 * time.Second}
	for _, node := range nodeNames {
		o.Faults = append(o.Faults,
			dst.Fault{At: time.Second, Kind: dst.SlowDevice, Node: node, For: 12 * time.Second, Count: 100})
		for i := range 20 {
			at := 1500*time.Millisecond + time.Duration(i)*500*time.Millisecond
			for _, model := range []string{"m", "k"} {
				o.Faults = append(o.Faults, dst.Fault{At: at, Kind: dst.Restart, Node: node, Model: model})
			}
		}
	}
	reaches(t, o, "session: interrupted (too many without a token)")
}

// scaleAll gives the model m a replica on each node, so that it shares the devices with k.
var scaleAll = dst.Fault{Kind: dst.Scale, Node: "n0", Model: "m", Count: 3}

// manySequences returns the options of a run in which each replica of m computes many sequences, which last.
func manySequences(load time.Duration) dst.Options {
	o := dst.Options{Calls: 8 * int(load.Seconds()), Busy: true, Load: load, DeviceBytes: 64 << 20, MaxSequences: 24,
		Faults: []dst.Fault{scaleAll}}
	for _, node := range nodeNames {
		o.Faults = append(o.Faults, dst.Fault{Kind: dst.SlowDevice, Node: node, For: load, Count: 3})
	}
	return o
}

// TestLateRedirect lets a replica stand still just before it hears that a sequence has resumed on the target of its
// migration, and then the target, so that the session chooses another replica, and a third one if that is the target.
// When it hears of the migration, it cancels the sequence on the target.
func TestLateRedirect(t *testing.T) {
	o := manySequences(22 * time.Second)
	for i := range 3 {
		at := time.Duration(4+8*i) * time.Second
		o.Faults = append(o.Faults,
			dst.Fault{At: at, Kind: dst.HoldActor, Node: "n2", Actor: "node/replicas/m-",
				Message: "ResumeSequenceResult", For: 5 * time.Second},
			dst.Fault{At: at, Kind: dst.Migrate, Node: "n2", Model: "m"}, // to n0
			dst.Fault{At: at + 700*time.Millisecond, Kind: dst.HoldActor, Node: "n0", Actor: "node/replicas/m-",
				Message: "RunStepResult", For: 4 * time.Second})
	}
	reaches(t, o, "session: moved (not from the replica)")
}

// TestTurnWhileShrunk lets replicas of another model come and go on a device, so that the KV memory of a
// replica shrinks and grows while it waits for its turn. The replica and the device are slow then, so that a turn
// ends before the memory has its new size, and the replica gets one in which it runs no step.
func TestTurnWhileShrunk(t *testing.T) {
	slow := func(actor, message string) dst.Fault {
		return dst.Fault{Kind: dst.HoldActor, Node: "n0", Actor: actor, Message: message,
			For: 60 * time.Millisecond, Count: 100}
	}
	o := dst.Options{Nodes: 1, Calls: 80, Load: 20 * time.Second, DeviceBytes: 64 << 20, MaxSequences: 24,
		Faults: []dst.Fault{slow("node/replicas/", "ShrinkKV"), slow("node/devices/", "KVShrunk")}}
	for i := range 13 {
		o.Faults = append(o.Faults, dst.Fault{At: time.Duration(i) * 1500 * time.Millisecond, Kind: dst.Scale,
			Node: "n0", Model: "m", Count: 3 - i%2})
	}
	reaches(t, o, "replica turns: granted (memory shrunk)")
}

// TestDeleteWhileLoading pins adapters whose files are slow, unpins them while they load, and deletes them
// before they are loaded.
func TestDeleteWhileLoading(t *testing.T) {
	o := dst.Options{Calls: 10, Seed: 2}
	for _, node := range nodeNames {
		for _, model := range []string{"m", "k"} {
			o.Faults = append(o.Faults, dst.Fault{Kind: dst.BreakFiles, Node: node, Model: model, Adapter: "a4",
				State: dst.FilesSlow, For: 10 * time.Second})
		}
	}
	for _, model := range []string{"m", "k"} {
		o.Faults = append(o.Faults,
			dst.Fault{At: 100 * time.Millisecond, Kind: dst.PinAdapter, Node: "n0", Model: model, Adapter: "a4",
				For: 300 * time.Millisecond},
			dst.Fault{At: 600 * time.Millisecond, Kind: dst.DeleteAdapter, Node: "n0", Model: model, Adapter: "a4",
				For: 3 * time.Second})
	}
	reaches(t, o, "adapter: loading loaded (being deleted)")
}

// TestSuspendedWhileClosing suspends the target of a migration whose transfer is slow to close: it no longer serves
// once the transfer is closed.
func TestSuspendedWhileClosing(t *testing.T) {
	o := manySequences(14 * time.Second)
	o.Faults = append(o.Faults, dst.Fault{Kind: dst.HoldActor, Node: "n0", Actor: "node/replicas/m-",
		Message: "*transfer.CloseSink", For: time.Second, Count: 100})
	for i := range 3 {
		at := time.Duration(4+3*i) * time.Second
		o.Faults = append(o.Faults,
			dst.Fault{At: at, Kind: dst.Migrate, Node: "n2", Model: "m"}, // to n0
			dst.Fault{At: at + 700*time.Millisecond, Kind: dst.Standby, Node: "n0", Model: "m",
				For: 1500 * time.Millisecond})
	}
	reaches(t, o, "migrate target: closing closed (not serving)")
}

// TestLateResume lets replicas stand still just before they hear that the target of a migration has accepted a
// sequence. It no longer waits for the sequence when it is asked to resume it.
func TestLateResume(t *testing.T) {
	o := dst.Options{Calls: 100, Busy: true, Load: 7 * time.Second, Faults: []dst.Fault{scaleAll}}
	for i := range 4 {
		at, node := time.Duration(3+4*i)*time.Second, nodeNames[2-i%2]
		o.Faults = append(o.Faults,
			dst.Fault{At: at, Kind: dst.HoldActor, Node: node, Actor: "node/replicas/m-",
				Message: "OfferSequenceResult", For: 7 * time.Second},
			dst.Fault{At: at, Kind: dst.Migrate, Node: node, Model: "m"}) // to n0
	}
	reaches(t, o, "migrate target: expecting timer", "migrate target: gone resume")
}

// TestRepeatedOffer delays the acceptance of offers, so that the source of a migration repeats them.
func TestRepeatedOffer(t *testing.T) {
	o := dst.Options{Calls: 80, Busy: true, Load: 12 * time.Second, Faults: []dst.Fault{scaleAll}, Seed: 2}
	for i := range 9 {
		at, node := time.Duration(2+i)*time.Second, nodeNames[i%len(nodeNames)]
		o.Faults = append(o.Faults, dst.Fault{At: at, Kind: dst.Migrate, Node: node, Model: "m"})
		for _, other := range nodeNames {
			if other != node {
				o.Faults = append(o.Faults, dst.Fault{At: at, Kind: dst.Cut, Node: other, Peer: node,
					For: 700 * time.Millisecond})
			}
		}
	}
	reaches(t, o, "migrate target: receiving offer")
}

// TestStandbyWhileAwaitingTurn puts replicas on standby while the device does not grant the turn that they have
// asked for. Their sequences move to other replicas, and the turn comes when it is no longer awaited.
func TestStandbyWhileAwaitingTurn(t *testing.T) {
	o := dst.Options{Calls: 80, Load: 16 * time.Second, Faults: []dst.Fault{scaleAll}}
	for i := range 3 {
		at := time.Duration(2+4*i) * time.Second
		for _, node := range nodeNames {
			o.Faults = append(o.Faults, dst.Fault{At: at, Kind: dst.HoldActor, Node: node,
				Actor: "node/devices/gpu-0", Message: "RequestTurn", For: 2 * time.Second})
		}
		o.Faults = append(o.Faults, dst.Fault{At: at + 500*time.Millisecond, Kind: dst.Standby, Node: "n0",
			Model: "m", Count: 1 + i%3, For: 2 * time.Second})
	}
	reaches(t, o, "replica turns: awaiting unused (on standby)", "replica turns: none granted")
}
