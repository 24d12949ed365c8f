package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/core/cost"
	"troupe/core/schedule"
	"troupe/workload"
)

// calibrated are the costs of the steps of software.
var calibrated = cost.Steps{Form: cost.Sum, FixedUS: 20_000, PromptTokenUS: 100, DecodeSequenceUS: 200}

// TestCapacitiesAreServed checks that replicas serve what their profile says: about 1 % of the requests miss the SLO at
// that rate, so that it is fewer at four fifths of it, and more at five fourths.
func TestCapacitiesAreServed(t *testing.T) {
	const n = 3000
	prompts, outputs := make([]float64, n), make([]float64, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		prompts[i] = math.Ceil(150 * math.Exp(0.5*r.NormFloat64()))
		outputs[i] = math.Ceil(40 * math.Exp(0.6*r.NormFloat64()))
	}
	lengths := func(all []float64) cost.Lengths {
		all = slices.Sorted(slices.Values(all))
		l := cost.Lengths{Count: n, P99: all[n*99/100]}
		for _, x := range all {
			l.Mean += x / n
		}
		return l
	}
	for _, ttft := range []time.Duration{150 * time.Millisecond, 500 * time.Millisecond} {
		d := deploy("m", 1)
		d.Times, d.SLO.TTFT = map[string]StepTimer{"software": calibrated}, ttft
		rates := cost.LeastCapacities(cost.Requests{Prompt: lengths(prompts), Output: lengths(outputs), TTFT: ttft,
			TPOT: d.SLO.TPOT}, []cost.Replica{{Steps: calibrated, Known: true, Places: d.MaxSequences,
			StepTokens: d.StepTokens}}, 4)
		for _, replicas := range []int{1, 4} {
			var late []float64 // %
			for _, share := range []float64{0.8, 1.25} {
				gaps := rand.New(rand.NewPCG(3, 4))
				at, all := time.Duration(0), []workload.Request(nil)
				for i := range n {
					at += time.Duration(gaps.ExpFloat64() / (share * rates[replicas-1]) * float64(time.Second))
					all = append(all, workload.Request{At: at, Model: "m", Prompt: int(prompts[i]),
						Output: int(outputs[i])})
				}
				d.Replicas, d.MinReplicas, d.MaxReplicas = replicas, replicas, replicas
				result, err := Run(Config{Duration: at, Devices: devices(replicas), Deployments: []Deployment{d},
					KVReserve: 0.3}, of(all))
				if err != nil {
					t.Fatal(err)
				}
				late = append(late, 100*(1-*result.Models[0].SLOAttainment))
			}
			if late[0] >= 1 || late[1] <= 1 {
				t.Errorf("%d replicas, TTFT %s: %.2f %% late at 0.8 and 1.25 of %.3g requests/s", replicas, ttft, late,
					rates[replicas-1])
			}
		}
	}
}

// TestProfileOfPlanner checks that the planner knows what replicas serve from the costs of their steps, as on a cluster
// with a profile, and starts as many as the rate of a spike needs.
func TestProfileOfPlanner(t *testing.T) {
	d := deploy("m", 1)
	d.MinReplicas, d.MaxReplicas, d.Priority = 1, 3, schedule.High
	var all []workload.Request // 0.7 requests per second, and 6 in the last minute
	for at := time.Duration(0); at < 5*time.Minute; {
		all = append(all, workload.Request{At: at, Prompt: 100, Output: 100})
		at += time.Second * 10 / 7
		if at > 4*time.Minute {
			at -= time.Second*10/7 - time.Second/6
		}
	}
	for _, known := range []bool{true, false} {
		d.Times = map[string]StepTimer{"software": software}
		if known {
			d.Times["software"] = calibrated
		}
		cfg := Config{Duration: 5 * time.Minute, Devices: devices(3), Deployments: []Deployment{d}}
		_, record := simulate(t, cfg, all)
		if got := strings.Contains(record, "within the SLO, by the profile"); got != known {
			t.Errorf("by the profile: %v, want %v\n%s", got, known, lives(record))
		}
	}
}
