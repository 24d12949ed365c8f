package simulate

import (
	"math"
	"reflect"
	"testing"
	"time"

	"troupe/workload"
)

// TestSeries computes the series of two requests by hand. The second one waits for the first, and ends
// after the time of the scenario.
func TestSeries(t *testing.T) {
	d := deploy("m", 1)
	d.MaxSequences, d.SLO = 1, SLO{TTFT: 300 * time.Millisecond}
	d.Times = map[string]StepTimer{"software": linear{fixed: 100 * time.Millisecond}}
	cfg := Config{Duration: 4 * time.Second, Buckets: 4, Devices: devices(2), Deployments: []Deployment{d}}
	at := 3750 * time.Millisecond
	one := workload.Request{At: at, Prompt: 100, Output: 3}
	result, _ := simulate(t, cfg, []workload.Request{one, one})
	nothing := make([]float64, 5)
	want := &Series{
		Seconds: 4.35, BucketSeconds: 1,
		Models: []ModelSeries{{
			Model: "m", Arrivals: []int{0, 0, 0, 2, 0}, SLOAttainment: []*float64{nil, nil, nil, nil, count(0)},
			Goodput: nothing, Waiting: []float64{0, 0, 0, 0.25, 0.05 / 0.35}, Running: []float64{0, 0, 0, 0.25, 1},
			KVHits: []*float64{nil, nil, nil, count(0), count(0)}, Replicas: []float64{1, 1, 1, 1, 1},
		}},
		Devices: []DeviceSeries{
			{Device: "a/gpu-0", Busy: []Busy{{"m", []float64{0, 0, 0, 0.25, 1}}},
				Intervals: []Interval{{Model: "m", Replica: "m-0", State: "serving", From: 0, To: 4.35}}},
			{Device: "a/gpu-1", Busy: []Busy{}, Intervals: []Interval{}},
		},
	}
	// Each request has three steps of 100 ms: one for the prompt and the first token, and two for the others.
	// The first one is within the SLO, and the second waits for 300 ms before its first step.
	half := 0.5
	want.Models[0].SLOAttainment[4], want.Models[0].Goodput = &half, []float64{0, 0, 0, 0, 1 / 0.35}
	if got := result.Series; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v\n%v", got, want, got.Models[0].SLOAttainment[4])
	}
}

// TestSeriesBeforeTheBeginning checks that what is before the beginning of virtual time counts nothing.
func TestSeriesBeforeTheBeginning(t *testing.T) {
	cfg := Config{Duration: 4 * time.Second, Buckets: 4, Devices: devices(1),
		Deployments: []Deployment{deploy("m", 1)}}
	s, err := start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.series = series{}
	s.series.open(s)
	r, before := s.named("m-0"), epoch.Add(-time.Minute)
	s.series.observe(r, before)
	s.series.stepBegan(r, before)
	s.series.stepsEnded(r, epoch.Add(time.Second))
	s.series.gone(r, epoch.Add(2*time.Second))
	got := s.series.result(s, cfg.Duration).Devices[0]
	want := DeviceSeries{Device: "a/gpu-0", Busy: []Busy{{"m", []float64{1, 0, 0, 0}}},
		Intervals: []Interval{{Model: "m", Replica: "m-0", State: "serving", From: 0, To: 2}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// TestSeriesAddUp checks that the series of a busy run add up to its result, also if the run lasts so long
// that buckets are joined.
func TestSeriesAddUp(t *testing.T) {
	for _, duration := range []time.Duration{time.Hour, 10 * time.Second} {
		cfg := Config{Duration: duration, Buckets: 7, Devices: devices(2),
			Deployments: []Deployment{deploy("m", 2), deploy("n", 1, "a/gpu-0")}}
		result, _ := simulate(t, cfg, poisson(1, 300, 30*time.Millisecond, "m", "n"))
		s := result.Series
		if n := len(s.Models[0].Arrivals); n < 7 || n > 14 || (duration < time.Minute) != (n != 7) {
			t.Errorf("%v: %d buckets", duration, n)
		}
		length := func(i int) float64 { return min(s.BucketSeconds, s.Seconds-float64(i)*s.BucketSeconds) }
		for i, m := range s.Models {
			var arrivals, met, busy float64
			for b := range m.Arrivals {
				arrivals, met = arrivals+float64(m.Arrivals[b]), met+m.Goodput[b]*length(b)
				for _, d := range s.Devices {
					for _, of := range d.Busy {
						if of.Model == m.Model {
							busy += of.Share[b] * length(b)
						}
					}
				}
			}
			want := result.Models[i]
			for _, v := range []struct{ got, want float64 }{
				{arrivals, float64(want.Requests)}, {met, want.Goodput * s.Seconds},
				{busy, want.Busy * want.DeviceHours * 3600},
			} {
				if math.Abs(v.got-v.want) > 1e-6 {
					t.Errorf("%v, %s: the series add up to %v, want %v", duration, m.Model, v.got, v.want)
				}
			}
		}
	}
}
