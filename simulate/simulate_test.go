package simulate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/batch"
	"troupe/core/cost"
	"troupe/core/schedule"
	"troupe/workload"
)

// linear is a cost model for tests.
type linear struct{ fixed, prompt, decode, context time.Duration }

func (l linear) Time(s cost.Step) time.Duration {
	return l.fixed + time.Duration(s.Prompt)*l.prompt + time.Duration(s.Decode)*l.decode +
		time.Duration(s.Context)*l.context
}

var software = linear{20 * time.Millisecond, 100 * time.Microsecond, 200 * time.Microsecond, 30}

// requests returns a source of requests.
func of(all []workload.Request) func(func(workload.Request, error) bool) {
	return func(yield func(workload.Request, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// poisson returns requests with exponential gaps, for each model in turn.
func poisson(seed uint64, n int, gap time.Duration, models ...string) (all []workload.Request) {
	r := rand.New(rand.NewPCG(seed, 1))
	at := time.Duration(0)
	for i := range n {
		at += time.Duration(r.ExpFloat64() * float64(gap))
		q := workload.Request{At: at, Model: models[r.IntN(len(models))], Prompt: 1 + r.IntN(700),
			Output: 1 + r.IntN(200)}
		if i%3 > 0 {
			q.PrefixBlock, q.Prefix = 64, []uint64{uint64(r.IntN(3)), uint64(r.IntN(3)), uint64(i)}
		}
		if i%5 == 0 {
			q.Client = fmt.Sprint("client-", r.IntN(3))
		}
		all = append(all, q)
	}
	return all
}

func deploy(name string, replicas int, devices ...string) Deployment {
	return Deployment{Name: name, WeightBytes: 1 << 30, KVTokenBytes: 1 << 16, ContextTokens: 2048,
		Times: map[string]StepTimer{"software": software}, Replicas: replicas, Devices: devices, Class: batch.Standard,
		Priority:     schedule.Standard,
		MaxSequences: 8, MaxWaiting: 64, StepTokens: 256, BlockTokens: 16, SLO: SLO{TTFT: 2 * time.Second,
			TPOT: 100 * time.Millisecond}}
}

func devices(n int) (all []Device) {
	for i := range n {
		all = append(all, Device{Node: "a", Name: fmt.Sprint("gpu-", i), Kind: "software", Memory: 8 << 30})
	}
	return all
}

func simulate(t interface {
	Helper()
	Fatal(...any)
}, cfg Config, all []workload.Request) (Result, string) {
	t.Helper()
	var record bytes.Buffer
	cfg.Record, cfg.KVReserve = &record, 0.3
	if cfg.Buckets == 0 {
		cfg.Buckets = 7
	}
	result, err := Run(cfg, of(all))
	if err != nil {
		t.Fatal(err)
	}
	return result, record.String()
}

func TestRequestsAreServed(t *testing.T) {
	cfg := Config{Duration: time.Hour, Devices: devices(2), Deployments: []Deployment{deploy("m", 2)}}
	result, record := simulate(t, cfg, poisson(1, 200, time.Second, "m"))
	m := result.Models[0]
	if m.Requests != 200 || m.Finished != 200 || m.Refused != 0 || *m.TTFTP50 <= 0 || *m.TPOTP50 < 0.02 ||
		*m.KVHits <= 0 {
		t.Errorf("%+v", m)
	}
	if len(record) == 0 {
		t.Error("nothing was recorded")
	}
}

const grid = 50 * time.Millisecond

// TestStepsAtOnce checks that steady steps at once and one by one give the same bytes of the record and
// the same result, with its series.
func TestStepsAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Devices: devices(rapid.IntRange(1, 3).Draw(t, "devices"))}
		cfg.Duration = rapid.SampledFrom([]time.Duration{5 * time.Second, 5 * time.Minute}).Draw(t, "duration")
		cfg.Buckets = rapid.IntRange(1, 30).Draw(t, "buckets")
		ties := rapid.Bool().Draw(t, "ties") // all events are at multiples of 50 ms
		models := []string{"m", "n"}[:rapid.IntRange(1, 2).Draw(t, "models")]
		for _, name := range models {
			d := deploy(name, rapid.IntRange(1, 3).Draw(t, "replicas"))
			d.Class = rapid.SampledFrom([]batch.Class{batch.Batch, batch.Standard, batch.Interactive}).Draw(t, "class")
			d.BlockTokens = rapid.SampledFrom([]int{1, 4, 16, 24}).Draw(t, "block")
			d.MaxSequences = rapid.IntRange(1, 12).Draw(t, "places")
			d.KVBlocks = rapid.SampledFrom([]int{0, 2500 / d.BlockTokens, 4000 / d.BlockTokens}).Draw(t, "blocks")
			fixed := time.Duration(rapid.IntRange(0, 300).Draw(t, "fixed")) * time.Millisecond
			d.Times = map[string]StepTimer{"software": linear{fixed, 50 * time.Microsecond, 1000, 7}}
			if ties {
				d.Times = map[string]StepTimer{"software": linear{fixed: (fixed + grid).Truncate(grid)}}
			}
			cfg.Deployments = append(cfg.Deployments, d)
		}
		drawParts(t, &cfg)
		all := poisson(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 40).Draw(t, "requests"),
			time.Duration(rapid.IntRange(1, 4000).Draw(t, "gap"))*time.Millisecond, models...)
		for i := range all {
			if ties {
				all[i].At = all[i].At.Truncate(grid)
			}
		}
		name(cfg, all)
		bothWays(t, cfg, all)
	})
}

// bothWays runs steady steps at once and one by one, and compares the bytes of the record and the results.
func bothWays(t *rapid.T, cfg Config, all []workload.Request) Result {
	t.Helper()
	atOnce, record := simulate(t, cfg, all)
	cfg.StepByStep = true
	oneByOne, want := simulate(t, cfg, all)
	if record != want {
		t.Fatalf("the records differ:\n%s", firstDifference(record, want))
	}
	if !reflect.DeepEqual(atOnce, oneByOne) {
		t.Fatalf("the results differ:\n%+v\n%+v", atOnce, oneByOne)
	}
	return atOnce
}

// firstDifference returns the first lines that differ.
func firstDifference(got, want string) string {
	a, b := bytes.Split([]byte(got), []byte("\n")), bytes.Split([]byte(want), []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			return fmt.Sprintf("line %d\n%s\nwant\n%s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}
