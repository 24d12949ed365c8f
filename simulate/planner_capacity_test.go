package simulate

import (
	"strings"
	"testing"
	"time"

	"troupe/core/cost"
	"troupe/core/schedule"
	"troupe/workload"
)

// TestCapacity checks that the planner knows what a replica can carry from the costs of its steps,
// as on a cluster with a profile, and starts as many as the rate needs before requests miss the
// SLO.
func TestCapacity(t *testing.T) {
	d := deploy("m", 1)
	d.MinReplicas, d.MaxReplicas, d.Priority = 1, 3, schedule.High
	steps := cost.Steps{Form: cost.Sum, FixedUS: 20_000, PromptTokenUS: 100, DecodeSequenceUS: 200}
	d.Rate = 0.7
	var all []workload.Request // 0.7 requests per second in the first minute, and 2.7 in the tenth
	for at := time.Duration(0); at < 10*time.Minute; {
		all = append(all, workload.Request{At: at, Prompt: 100, Output: 100})
		at += time.Duration(float64(time.Second) / (0.7 + 2*at.Minutes()/10))
	}
	for _, known := range []bool{true, false} {
		d.Times = map[string]StepTimer{"software": linear{20 * time.Millisecond, 100 * time.Microsecond,
			200 * time.Microsecond, 0}}
		if known {
			d.Times["software"] = steps
		}
		cfg := Config{Duration: 10 * time.Minute, Devices: devices(3), Deployments: []Deployment{d}}
		_, record := simulate(t, cfg, all)
		if got := strings.Contains(record, "within the SLO by its profile"); got != known {
			t.Errorf("by the profile: %v, want %v\n%s", got, known, lives(record))
		}
	}
}
