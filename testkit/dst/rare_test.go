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

// reaches runs clusters with a few seeds, and checks that the row of a transition table applies in each of them.
func reaches(t *testing.T, row string, o dst.Options) {
	t.Helper()
	seeds := []uint64{1, 2, 3}
	if *firstSeed != 0 {
		seeds = []uint64{*firstSeed}
	}
	for _, seed := range seeds {
		if !applies(t, row, o, seed) {
			t.Errorf("seed %d: %q did not apply", seed, row)
		}
	}
}

// applies runs a cluster with a seed, and reports whether the row of a transition table applies.
func applies(t *testing.T, row string, o dst.Options, seed uint64) bool {
	t.Helper()
	table, event, _ := strings.Cut(row, ": ")
	o.Nodes, o.Seed = cmp.Or(o.Nodes, 3), seed
	r := run(t, alone(t, o))
	for _, wrong := range r.Failures {
		t.Errorf("seed %d: %s", o.Seed, wrong)
	}
	return slices.ContainsFunc(r.Transitions, func(transition string) bool {
		of, is := strings.CutPrefix(transition, table+": ")
		return is && strings.HasSuffix(" "+of, " "+event)
	})
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
	reaches(t, "wake: tick (its deadline passed)", o)
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
	reaches(t, "session: interrupted (too many without a token)", o)
}

// TestLateRedirect lets replicas stand still just before they hear that a sequence has resumed on the target of
// its migration. Its session has another replica by the time it hears of the migration, and cancels the
// sequence on the target.
func TestLateRedirect(t *testing.T) {
	o := dst.Options{Calls: 80, Busy: true, Load: 12 * time.Second,
		Faults: []dst.Fault{{Kind: dst.Scale, Node: "n0", Model: "m", Count: 3}}}
	for i := range 12 {
		at, node := time.Duration(2+i)*time.Second, nodeNames[i%len(nodeNames)]
		o.Faults = append(o.Faults,
			dst.Fault{At: at, Kind: dst.HoldActor, Node: node, Actor: "node/replicas/m-",
				Message: "ResumeSequenceResult", For: 1800 * time.Millisecond},
			dst.Fault{At: at, Kind: dst.Migrate, Node: node, Model: "m"})
	}
	for seed := uint64(1); seed <= 20; seed++ { // with some, all sessions choose the target
		if applies(t, "session: moved (not from the replica)", o, seed) {
			return
		}
	}
	t.Error("no session had another replica when it heard of a migration")
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
	reaches(t, "replica turns: granted (memory shrunk)", o)
}
