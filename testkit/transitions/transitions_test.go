package transitions

import (
	"testing"

	"troupe/core/table"
)

// TestDraw checks the form of a table: an event is written once, and a row without a next state
// stays in its state.
func TestDraw(t *testing.T) {
	got := draw("state", []table.Line{
		{On: "start", From: []string{"idle"}, Next: "running", Effects: "Run"},
		{On: "stop", From: []string{"idle", "running"}, Guard: "busy", Effects: "Wait"},
		{On: "stop", From: []string{"running"}, Next: "idle"},
	}, List)
	want := "//\tevent  state          guard  next     effects\n" +
		"//\tstart  idle                  running  Run\n" +
		"//\tstop   idle, running  busy   same     Wait\n" +
		"//\t       running               idle\n"
	if got != want {
		t.Errorf("drawn:\n%swant:\n%s", got, want)
	}
}

// TestFaults checks that a hidden row and a row that ignores an event wrongly are found.
func TestFaults(t *testing.T) {
	idle, both := []string{"idle"}, []string{"idle", "running"}
	for name, tc := range map[string]struct {
		rows []table.Line
		want int
	}{
		"sound":             {[]table.Line{{On: "a", From: idle, Guard: "busy"}, {On: "a", From: both}}, 0},
		"other event":       {[]table.Line{{On: "a", From: both}, {On: "b", From: idle}}, 0},
		"hidden":            {[]table.Line{{On: "a", From: both}, {On: "a", From: idle}}, 1},
		"ignored":           {[]table.Line{{On: "a", From: idle, Guard: "late", Ignores: true}}, 0},
		"ignored, why":      {[]table.Line{{On: "a", From: idle, Ignores: true}}, 1},
		"ignored, and next": {[]table.Line{{On: "a", From: idle, Guard: "late", Next: "running", Ignores: true}}, 1},
	} {
		if got := faults(tc.rows); len(got) != tc.want {
			t.Errorf("%s: %q, want %d", name, got, tc.want)
		}
	}
}
