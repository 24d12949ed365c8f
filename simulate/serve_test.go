package simulate

import (
	"strings"
	"testing"
	"time"

	"troupe/workload"
)

// TestTimes computes the times of a request by hand: two prefill steps, the second of which gives the
// first token, and then one step for each token.
func TestTimes(t *testing.T) {
	d := deploy("m", 1)
	d.Times = map[string]StepTimer{"software": linear{fixed: 10 * time.Millisecond, prompt: time.Millisecond,
		decode: 5 * time.Millisecond, context: 100 * time.Microsecond}}
	cfg := Config{Duration: time.Minute, Devices: devices(1), Deployments: []Deployment{d}}
	at := 3 * time.Second
	result, record := simulate(t, cfg, []workload.Request{{At: at, Prompt: 300, Output: 3}})
	ms := func(n float64) float64 { return n / 1000 }
	prefill := ms(10+256) + ms(10+44+25.6)
	first, second := ms(10+5+30), ms(10+5+30.1) // context of 300 and 301 tokens
	m := result.Models[0]
	if got := *m.TTFTP50; !near(got, prefill) {
		t.Errorf("TTFT is %v, want %v", got, prefill)
	}
	if got := *m.TPOTP50; !near(got, (first+second)/2) {
		t.Errorf("TPOT is %v, want %v", got, (first+second)/2)
	}
	if busy := m.Busy * 60; !near(busy, prefill+first+second) || m.Steps != 4 || *m.SLOAttainment != 1 ||
		!near(m.Goodput, 1.0/60) || !near(m.DeviceHours, 1.0/60) {
		t.Errorf("%+v", m)
	}
	for _, line := range []string{
		`{"simulated":true,"scenario":"","seed":0}`,
		`{"at":3.000000000,"event":"route","request":"r0","prompt":300,"output":3,"candidates":[{"replica":"m-0",`,
		`{"at":3.000000000,"event":"step","replica":"m-0","step":1,"prompt":256,"decode":0,"context":0,"entries":` +
			`[["r0",0,256]]}`,
		`{"at":3.266000000,"event":"step","replica":"m-0","step":2,"prompt":44,"decode":0,"context":256,"entries":` +
			`[["r0",256,44]]}`,
		`{"at":3.345600000,"event":"step","replica":"m-0","step":3,"prompt":0,"decode":1,"context":300,"entries":` +
			`[["r0",300,1]]}`,
		`{"at":3.435700000,"event":"finish","replica":"m-0","request":"r0","first":3.345600000}`,
		`{"at":3.435700000,"event":"ran","replica":"m-0","steps":2}`,
	} {
		if !strings.Contains(record, line) {
			t.Errorf("the record lacks\n%s\nin\n%s", line, record)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// TestPrefixesAreShared checks that requests of a conversation go where their blocks are, and share them.
func TestPrefixesAreShared(t *testing.T) {
	cfg := Config{Duration: time.Hour, Devices: devices(4), Deployments: []Deployment{deploy("m", 4)}}
	var all []workload.Request
	for i := range 20 {
		prefix := []uint64{1, 2, 3, uint64(10 + i%2)}
		all = append(all, workload.Request{At: time.Duration(i) * 20 * time.Second, Prompt: 400, Output: 10,
			Prefix: prefix, PrefixBlock: 96})
	}
	result, _ := simulate(t, cfg, all)
	// 288 tokens are those of all prompts, and 384 those of each second one.
	if hits := *result.Models[0].KVHits; !near(hits, (288+18*384)/float64(20*400)) {
		t.Errorf("%v of the tokens were found", hits)
	}
}

// TestFullQueueRefuses checks that requests beyond the queue are refused and counted.
func TestFullQueueRefuses(t *testing.T) {
	d := deploy("m", 1)
	d.MaxSequences, d.MaxWaiting = 2, 1
	cfg := Config{Duration: time.Minute, Devices: devices(1), Deployments: []Deployment{d}}
	result, record := simulate(t, cfg, make([]workload.Request, 7))
	if m := result.Models[0]; m.Requests != 7 || m.Finished != 3 || m.Refused != 4 || *m.SLOAttainment != 3.0/7 {
		t.Errorf("%+v", m)
	}
	if strings.Count(record, `"why":"queue full: 1 requests run and 2 wait`) != 4 {
		t.Error(record)
	}
}

// TestSharedDeviceTakesTurns checks that two replicas of a device never run at once, and that the higher
// class is served first.
func TestSharedDeviceTakesTurns(t *testing.T) {
	low, high := deploy("low", 1, "a/gpu-0"), deploy("high", 1, "a/gpu-0")
	low.Class, high.Class = 1, 3
	cfg := Config{Duration: time.Minute, Devices: devices(2), Deployments: []Deployment{low, high}}
	var all []workload.Request
	for i := range 8 {
		all = append(all, workload.Request{At: time.Duration(i) * time.Millisecond, Model: []string{"low", "high"}[i%2],
			Prompt: 200, Output: 60})
	}
	result, record := simulate(t, cfg, all)
	if !strings.Contains(record, `"replica":"high-0","why":"highest class"`) {
		t.Error("no turn went to the higher class")
	}
	slow, fast := result.Models[0], result.Models[1]
	if *fast.TTFTP99 >= *slow.TTFTP50 {
		t.Errorf("the higher class has a TTFT of %v, and the lower one %v", *fast.TTFTP99, *slow.TTFTP50)
	}
}

// TestRefusedConfigurations checks the errors of what cannot be simulated.
func TestRefusedConfigurations(t *testing.T) {
	good := func() Config {
		return Config{Duration: time.Minute, Devices: devices(1), Deployments: []Deployment{deploy("m", 1)}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"the duration is not positive": func(c *Config) { c.Duration = 0 },
		"there are no devices":         func(c *Config) { c.Devices = nil },
		"3 of 4 replicas serve; no GPU for a replica of m": func(c *Config) {
			c.Deployments[0].Replicas, c.Deployments[0].WeightBytes, c.Deployments[0].KVBlocks = 4, 5<<30, 2500
			c.Devices = devices(3)
		},
		`no device "a/gpu-7"`:        func(c *Config) { c.Deployments[0].Devices = []string{"a/gpu-7"} },
		"short of memory":            func(c *Config) { c.Deployments[0].WeightBytes = 9 << 30 },
		`on a device of kind "h100"`: func(c *Config) { c.Devices[0].Kind = "h100" },
	} {
		cfg := good()
		change(&cfg)
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, all := range map[string][]workload.Request{
		`is for model "x"; there are deployments of m`: {{Model: "x"}},
		"deployment m takes none":                      {{Model: "m", Adapter: "a"}},
		"sort the requests by time":                    {{At: 2}, {At: 1}},
	} {
		if _, err := Run(good(), of(all)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
