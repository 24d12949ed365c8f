package schedule

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestExplain checks that there is a verdict with a reason for each device, and that none admits a replica of a
// model on one device that lacks a place.
func TestExplain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		p.carryOut(Make(p.Snapshot), 10*time.Second)
		plan := Make(p.Snapshot)
		for _, m := range p.Models {
			all := Explain(p.Snapshot, m.Name)
			if len(all) != len(p.Devices) {
				t.Fatalf("%d verdicts for %d devices", len(all), len(p.Devices))
			}
			for _, v := range all {
				if v.Why == "" {
					t.Fatalf("no reason: %+v", v)
				}
				for _, u := range plan.Unmet {
					if u.Model == m.Name && m.Group == 1 && v.Admits && u.Urgency != Minimum {
						t.Fatalf("%+v, and %+v", v, u)
					}
				}
			}
		}
		if all := Explain(p.Snapshot, "unknown"); all != nil {
			t.Fatalf("an unknown model: %v", all)
		}
	})
}

// TestDue checks the times of the ends of backoffs and starts.
func TestDue(t *testing.T) {
	s := Snapshot{At: began, Devices: []Device{{Name: "a/gpu-0", Node: "a", Memory: 80 * gib}},
		Models: []Model{{Name: "m", Min: 1, Max: 1, Weights: gib, Sized: true, Loads: LoadTimes{Disk: time.Minute}}}}
	if at := Due(s, Make(s)); !at.IsZero() {
		t.Errorf("nothing is pending: %s", at.Sub(began))
	}
	s.Replicas = []Placed{{Name: "m-1", Model: "m", Devices: []string{"a/gpu-0"}, Progress: Starting, Since: began}}
	if at := Due(s, Make(s)); at.Sub(began).Round(time.Second) != 4*time.Minute {
		t.Errorf("a start: %s", at.Sub(began))
	}
	s.Replicas[0].Failure = "no file"
	if at := Due(s, Make(s)); at.Sub(began) != 10*time.Second {
		t.Errorf("a backoff: %s", at.Sub(began))
	}
}
