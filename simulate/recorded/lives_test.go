package recorded

import (
	"slices"
	"testing"

	"troupe/recording"
	"troupe/simulate"
)

// TestLives counts by hand: "a" had a replica, went to sleep, was woken twice, and had its device taken by "b"
// between. Then both share it, which is no switch.
// A replica that began before the recording, and one that never served, are no starts.
func TestLives(t *testing.T) {
	r := &recording.Recording{}
	r.Snapshot.Replicas = []recording.Replica{{Name: "a-0", Model: "a", Node: "n", Device: "gpu-0"}}
	r.Events = []recording.Event{
		{At: 1, Kind: "replica.serving", Subject: "a-0", Detail: "on n/gpu-0"},
		{At: 2, Kind: "replica.stopped", Subject: "a-0"},
		{At: 3, Kind: "replica.placed", Subject: "a-0"},
		{At: 4, Kind: "replica.serving", Subject: "a-0", Detail: "on n/gpu-0"},
		{At: 5, Kind: "replica.placed", Subject: "a-1"},
		{At: 6, Kind: "replica.lost", Subject: "a-1"},
		{At: 7, Kind: "replica.stopped", Subject: "a-0"},
		{At: 8, Kind: "replica.placed", Subject: "b-0"},
		{At: 9.5, Kind: "replica.serving", Subject: "b-0", Detail: "on n/gpu-0"},
		{At: 10, Kind: "replica.placed", Subject: "a-0"},
		{At: 12, Kind: "replica.serving", Subject: "a-0", Detail: "on n/gpu-0"},
	}
	all := Lives(r, simulate.Result{Models: []simulate.ModelResult{
		{Model: "a", Wakes: 1, Starts: 4, StartSeconds: 6, Switches: 1}, {Model: "b", Switches: 1}}})
	for _, want := range []struct {
		model, name         string
		recorded, simulated float64
	}{
		{"a", Wakes, 2, 1}, {"a", Starts, 2, 4}, {"a", StartTime, 1.5, 1.5}, {"b", Wakes, 1, 0}, {"b", Starts, 1, 0},
		{"all", Switches, 1, 2},
	} {
		at := slices.IndexFunc(all, func(m Metric) bool { return m.Model == want.model && m.Name == want.name })
		if at < 0 || *all[at].Recorded != want.recorded || *all[at].Simulated != want.simulated {
			t.Errorf("%+v: %+v", want, all)
		}
	}
	if m := all[5]; m.Name != StartTime || *m.Recorded != 1.5 || m.Simulated != nil || m.Error != nil {
		t.Errorf("%+v", m)
	}
}
