package dst_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/testkit/dst"
)

// TestCaptures lets captures of graphs hang and fail, while engines and replicas crash, models switch,
// and devices are lost. Clients see only exact tokens: a replica serves without graphs if their capture
// fails, and one whose capture hangs serves when it has ended, or is replaced.
func TestCaptures(t *testing.T) {
	seen := scenario(t, dst.Options{
		Count: 24,
		Kinds: []dst.FaultKind{
			dst.HangCapture, dst.HangCapture, dst.HangCapture, dst.FailCaptures, dst.FailCaptures, dst.FailSteps,
			dst.CrashActor, dst.CrashActor, dst.CrashActor, dst.CrashInJob, dst.Restart, dst.Restart, dst.Scale,
			dst.Switch, dst.Park, dst.Standby, dst.LoseDevice, dst.CrashNode,
		},
		Actors: []string{"engine", "engine", "replica", "gpu"},
	}, 2, 5, 6)
	for _, what := range []string{"graphs captured", "captures failed", "captures hung"} {
		if seen[what] == 0 {
			t.Errorf("%s: none", what)
		}
		t.Logf("%s: %d", what, seen[what])
	}
}

// TestSwitchCapturing switches a device to a model on standby, whose engine has crashed and captures again.
// While the capture hangs, the switch is capturing. It ends when the model serves, without graphs if their
// capture failed.
func TestSwitchCapturing(t *testing.T) {
	for _, is := range []struct {
		kind      dst.FaultKind
		seen, row string
	}{
		{dst.HangCapture, "captures hung", "switching: capturing serves"},
		{dst.FailCaptures, "captures failed", "switching: capturing serves"},
	} {
		at := 4 * time.Second
		o := dst.Options{Seed: 1, Nodes: 3, Calls: 60, Load: 12 * time.Second, Faults: []dst.Fault{
			{At: time.Second, Kind: dst.Standby, Node: "n0", Model: "k"},
			{At: at, Kind: is.kind, Node: "n0", For: 3 * time.Second, Count: 1},
			{At: at + time.Millisecond, Kind: dst.Restart, Node: "n0", Model: "k"},
			{At: at + 20*time.Millisecond, Kind: dst.Switch, Node: "n0", Model: "k", For: 10 * time.Second},
		}}
		r := run(t, o)
		for _, wrong := range r.Failures {
			t.Errorf("%s: %s", is.kind, wrong)
		}
		var rows []string
		for _, row := range r.Transitions {
			if strings.HasPrefix(row, "switching: ") {
				rows = append(rows, row)
			}
		}
		if r.Seen[is.seen] == 0 || !slices.Contains(rows, is.row) {
			t.Errorf("%s: %s: %d; %q", is.kind, is.seen, r.Seen[is.seen], rows)
		}
	}
}
