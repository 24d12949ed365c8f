package scenario

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/core/cost"
	"troupe/core/units"
	"troupe/simulate"
)

const shipped = "../../examples/scenarios"

// facts returns those of a model in the folder "models/small", and else an error.
func facts(folder string) (cost.Model, error) {
	if folder != filepath.Join(shipped, "models/small") {
		return cost.Model{}, errors.New("no config.json; name the folder of a model")
	}
	return cost.Model{Layers: 2, Hidden: 64, Intermediate: 128, Vocab: 512, Heads: 4, KVHeads: 2, HeadDim: 16,
		ContextTokens: 2048}, nil
}

// TestFolder checks that the facts of a model are those of its folder, unless the scenario has others.
func TestFolder(t *testing.T) {
	source, err := os.ReadFile(shipped + "/shared-device.yaml")
	if err != nil {
		t.Fatal(err)
	}
	begin, end := bytes.Index(source, []byte("    facts:")), bytes.Index(source, []byte("    steps:"))
	text := string(source[:begin]) + "    folder: models/small\n    facts: {heads: 8, weight_bits: 8}\n" +
		string(source[end:])
	s, err := Parse(shipped+"/x.yaml", []byte(text), facts)
	if err != nil {
		t.Fatal(err)
	}
	shape := units.ModelShape{Layers: 2, Hidden: 64, Intermediate: 128, Vocab: 512, Heads: 8, KVHeads: 2, HeadDim: 16}
	if d := s.Config.Deployments[0]; d.WeightBytes != shape.WeightBytes(8) || d.KVTokenBytes != shape.KVTokenBytes(2) ||
		d.ContextTokens != 2048 {
		t.Errorf("%+v", d)
	}
	_, err = Parse(shipped+"/x.yaml", []byte(strings.Replace(text, "models/small", "models/none", 1)), facts)
	if err == nil || !strings.Contains(err.Error(), "models[0].folder cannot be used: no config.json") ||
		!strings.Contains(err.Error(), "> 13 |") {
		t.Error(err)
	}
}

// TestShippedScenarios runs each scenario that ships, shortened, in both ways.
func TestShippedScenarios(t *testing.T) {
	files, err := filepath.Glob(shipped + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range files {
		s, err := Read(path, facts)
		if err != nil {
			t.Fatal(err)
		}
		s.Config.Duration = 30 * time.Second
		atOnce, record := run(t, s, 1)
		s.Config.StepByStep = true
		if _, want := run(t, s, 1); record != want {
			t.Errorf("%s: the record differs if steps run one by one", path)
		}
		for _, m := range atOnce.Models {
			if m.Requests == 0 || m.Finished != m.Requests {
				t.Errorf("%s: %+v", path, m)
			}
		}
	}
}

func run(t *testing.T, s *Scenario, seed uint64) (simulate.Result, string) {
	t.Helper()
	requests, err := s.Requests(seed)
	if err != nil {
		t.Error(err)
		return simulate.Result{}, ""
	}
	var record, table bytes.Buffer
	cfg := s.Config
	cfg.Seed, cfg.Record = seed, &record
	result, err := simulate.Run(cfg, requests)
	if err != nil {
		t.Error(err)
	}
	if err := simulate.PrintJSON(&table, []simulate.Result{result}); err != nil {
		t.Error(err)
	}
	return result, record.String() + table.String()
}

// TestSameBytes checks that a seed gives the same bytes on one core and on four, alone and beside other
// seeds, and that another seed gives others.
func TestSameBytes(t *testing.T) {
	s, err := Read(shipped+"/shared-device.yaml", facts)
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Duration = 20 * time.Second
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, want := run(t, s, 1)
	runtime.GOMAXPROCS(4)
	got := make([]string, 4)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { _, got[i] = run(t, s, uint64(1+i/2)) })
	}
	all.Wait()
	if got[0] != want || got[1] != want {
		t.Error("a seed gave other bytes on four cores")
	}
	if got[2] != got[3] || got[2] == want {
		t.Error("another seed gave the same bytes, or not always the same")
	}
}

// TestMistakes checks that mistakes are refused with the line, the key and a remedy.
func TestMistakes(t *testing.T) {
	source, err := os.ReadFile(shipped + "/shared-device.yaml")
	if err != nil {
		t.Fatal(err)
	}
	good := string(source)
	for _, c := range []struct{ from, to, line, want string }{
		{"duration: 10m", "durations: 10m", ">  5 |", "unknown key durations: remove it, or correct its name"},
		{"duration: 10m", "duration: soon", ">  5 |", "a duration such as 90s or 24h"},
		{"duration: 10m", "duration: 0s", ">  5 |", "duration is missing or not positive; write the time"},
		{"seed: 1", "seed: 1\nfaults: [{at: 1m}]", ">  5 |", "faults[0] needs one of node, device, replica, network"},
		{"seed: 1", "kv_reserve: 1.5", ">  4 |", "kv_reserve is 1.5; write a share"},
		{"memory: 24GB", "memory: lots", ">  9 |", "nodes[0].devices[0].memory is \"lots\"; write a size such as 80GB"},
		{", memory: 24GB", "", ">  9 |", `no profile of "small"`},
		{"layers: 16, ", "", "> 14 |", "models[0].facts.layers is missing or not positive"},
		{"form: max", "form: most", "> 17 |", `models[0].steps.small.form is "most"; use sum or max`},
		{"weights_us: 4000", "weights_us: -1", "> 17 |", "write numbers from 0"},
		{"      small:", "      large:", "> 17 |", `do not have the kind "small" of a device`},
		{"priority: batch", "priority: low", "> 27 |",
			`deployments[1].priority is "low"; use critical, high, standard or batch`},
		{"priority: batch", "replicas: 0", "> 27 |", "deployments[1].replicas is 0; add min_replicas: 0"},
		{"priority: batch", "replicas: 3\n    min_replicas: 1\n    max_replicas: 2", "> 27 |",
			"replicas is 3, and must be within min_replicas 1"},
		{"priority: batch", "min_replicas: 2\n    max_replicas: 1", "> 27 |", "min_replicas is 2; write a number"},
		{"priority: batch", "idle_after: 5m", "> 27 |", "with min_replicas 1 the deployment never goes to sleep"},
		{"priority: batch", "level: off", "> 27 |", `level is "off"; use active, standby or parked`},
		{"seed: 1", "loads: {disk: fast}", ">  4 |", `loads.disk is "fast"; write a size such as 2GB`},
		{"seed: 1", "faults: [{at: 1m, node: z}]", ">  4 |", `faults[0].node "z" is not under nodes`},
		{"seed: 1", "faults: [{at: 1m, replica: z-0}]", ">  4 |", `faults[0].replica "z-0" is of no deployment`},
		{"seed: 1", "faults: [{at: 1m, replica: chat-0, for: 1m}]", ">  4 |", "write hang for a step"},
		{"seed: 1", "faults: [{at: 1m, node: a, hang: 1m}]", ">  4 |", "name the replica"},
		{"seed: 1", "policies: {policy: best}", ">  4 |",
			`policies.policy is "best"; use one of slo, threshold, static`},
		{"seed: 1", "policies: {placement: far}", ">  4 |", `placement is "far"; use one of scored, least-loaded`},
		{"seed: 1", "policies: {up_at: -1}", ">  4 |", "policies.up_at is not from 0"},
		{"seed: 1", "faults: [{at: 1m, network: z}]", ">  4 |", `faults[0].network "z" is not under nodes`},
		{"seed: 1", "faults: [{at: 1m, network: a, slow: 0.5}]", ">  4 |", "faults[0].slow is 0.5; write how many"},
		{"seed: 1", "faults: [{at: 1m, between: [a]}]", ">  4 |", "faults[0].between has not two different nodes"},
		{"seed: 1", "faults: [{at: 1m, between: [a, z]}]", ">  4 |", `faults[0].between[1] "z" is not under nodes`},
		{"seed: 1", "faults: [{at: 1m, disk: a}]", ">  4 |", "faults[0].slow is missing; write how many times"},
		{"seed: 1", "faults: [{at: 1m, link: a/gpu-7, slow: 2}]", ">  4 |", `"a/gpu-7" does not exist`},
		{"seed: 1", "faults: [{at: 1m, node: a, slow: 2}]", ">  4 |", "is for a network, a disk or a link"},
		{"seed: 1", "commands: [{at: 1m}]", ">  4 |", "commands[0] needs one of scale, park, standby, activate"},
		{"seed: 1", "commands: [{at: 1m, park: chat, drain: a}]", ">  4 |", "and has 2 of them"},
		{"seed: 1", "commands: [{at: -1m, park: chat}]", ">  4 |", "commands[0] has a negative time"},
		{"seed: 1", "commands: [{at: 1m, park: z}]", ">  4 |", `commands[0].park "z" is not under deployments`},
		{"seed: 1", "commands: [{at: 1m, drain: z}]", ">  4 |", `commands[0].drain "z" is not under nodes`},
		{"seed: 1", "commands: [{at: 1m, preempt: z-0}]", ">  4 |", `commands[0].preempt "z-0" is of no deployment`},
		{"seed: 1", "commands: [{at: 1m, scale: chat}]", ">  4 |", "commands[0].replicas is missing; write a number"},
		{"seed: 1", "commands: [{at: 1m, scale: chat, replicas: 2000}]", ">  4 |", "is 2000; write a number from 0"},
		{"seed: 1", "commands: [{at: 1m, park: chat, replicas: 1}]", ">  4 |", "replicas is for scale; remove it"},
		{"seed: 1", "commands: [{at: 1m, park: chat, deadline: 1s}]", ">  4 |", "deadline is for preempt; remove it"},
		{"seed: 1", "commands: [{at: 1m, preempt: chat-0, deadline: 1h}]", ">  4 |", "deadline is 1h0m0s; write a"},
		{"seed: 1", "links: [{from: a}]", ">  4 |", "links are not simulated yet; remove this section"},
		{"priority: batch", "devices: [a/gpu-1]", "> 27 |", `"a/gpu-1" does not exist`},
		{"priority: batch", "step_tokens: many", "> 27 |", "a whole number"},
		{"  - name: nightly\n", "  - name: chat\n", "> 25 |", "give each deployment"},
		{"  - deployment: nightly", "  - deployment: daily", "> 34 |", `workload[1].deployment "daily" is not under`},
		{"  - name: a\n", "  - name: a\n    tiers: {dram: big}\n", ">  9 |", "tiers.dram is \"big\"; write a size"},
		{"  - name: a\n", "  - name: a\n    tiers: {remote: big}\n", ">  9 |", "tiers.remote is \"big\"; write"},
		{"  - name: a\n", "  - name: a\n    tiers: {policy: best}\n", ">  9 |", "policy is \"best\"; use one of lru,"},
		{"  - name: a\n", "  - name: a\n    tiers: {restore: no}\n", ">  9 |", "is \"no\"; use one of [auto always]"},
		{"  - name: a\n", "  - name: a\n    tiers: {watermark: 2}\n", ">  9 |", "watermark is 2; write a share"},
		{"priority: batch", "adapters: {rank: 8}", "> 27 |", "deployments[1].adapters.pages is 0; write the number"},
		{"priority: batch", "adapters: {pages: 8}", "> 27 |", "needs one of rank, ranks and bytes"},
		{"priority: batch", "adapters: {pages: 8, ranks: [8, 0]}", "> 27 |", "ranks[1] is 0; write the rank"},
		{"priority: batch", "adapters: {pages: 8, bytes: big}", "> 27 |", "adapters.bytes is \"big\"; write a size"},
		{"memory: 24GB", "memory: 24GB, link: fast", ">  9 |", "devices[0].link is \"fast\"; write a size"},
		{"  - name: a\n", "  - name: a\n    host_cache: all\n", ">  9 |", "nodes[0].host_cache is \"all\"; write a"},
		{"  - name: a\n", "  - name: a\n    weights_disk: all\n", ">  9 |", "weights_disk is \"all\"; write a"},
		{"seed: 1", "loads: {image: fast}", ">  4 |", `loads.image is "fast"; write a size such as 2GB`},
		{"rate: 1\n", "rate: -1\n", "> 35 |", "workload[1].rate -1 is not a rate; write the arrivals per second"},
		{"rate: 1\n", "trace: missing.csv\n    rate: 1\n", "> 34 |", "needs one of trace, preset and rate, and has 2"},
		{"rate: 1\n", "trace: missing.csv\n", "> 34 |", "no such file"},
		{"rate: 1\n", "preset: none\n", "> 34 |", `preset "none" does not exist; there are azure-code-like`},
		{"output: {fixed: 200}", "output: {fixed: 200, median: 3}", "> 37 |", "workload[1].output has 2 distributions"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Errorf("%q is not in the scenario", c.from)
		}
		_, err := Parse(shipped+"/x.yaml", []byte(text), facts)
		if err == nil || !strings.Contains(err.Error(), c.line) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant %q and %q", c.to, err, c.line, c.want)
		}
	}
	if _, err := Parse("x", nil, facts); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty scenario: %v", err)
	}
}
