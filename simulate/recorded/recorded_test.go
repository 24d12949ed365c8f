package recorded

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"troupe/core/cost"
	"troupe/recording"
	"troupe/simulate"
	"troupe/workload"
)

// recordedCluster has two nodes that serve a model, and requests with the given hashes, one a second.
func recordedCluster(blocks ...recording.Hashes) *recording.Recording {
	r := &recording.Recording{Complete: true, End: recording.End{At: float64(len(blocks))}}
	for i, name := range []string{"a", "b"} {
		r.Snapshot.Nodes = append(r.Snapshot.Nodes, recording.Node{Name: name, Devices: []recording.Device{
			{Name: "gpu-0", Kind: "host device", MemoryBytes: 1 << 28, KVReserve: 0.25},
		}})
		p := recording.Replica{Name: fmt.Sprintf("chat-%d", i), Model: "chat", Node: name, Device: "gpu-0",
			State: "serving", KVBlocks: 128, KVBlockBytes: 16 * 384, Steps: 10}
		r.Snapshot.Replicas = append(r.Snapshot.Replicas, p)
		p.Steps += 100
		r.End.Replicas = append(r.End.Replicas, p)
	}
	r.Snapshot.Deployments = []recording.Deployment{{
		Name: "chat", Class: "standard", MaxSequences: 8, MaxWaiting: 100, StepTokens: 512, BlockTokens: 16,
		ContextTokens: 1024, WeightBytes: profile("kjv-2m").Model.WeightBytes(),
		Spec: json.RawMessage(`{"name": "chat", "path": "/models/kjv-2m"}`),
	}}
	for i, hashes := range blocks {
		ttft, tpot := 0.004, 0.001
		r.Requests = append(r.Requests, recording.Request{
			At: float64(i), ID: fmt.Sprint(i), Model: "chat", Prompt: 16*len(hashes) + 1, Output: 11, BlockTokens: 16,
			Blocks: hashes, TTFT: &ttft, TPOT: &tpot, Cached: 16, Took: 0.014, End: "length",
		})
	}
	return r
}

func profile(model string) cost.Profile {
	return cost.Profile{Device: cost.Device{Name: "host device"}, Model: &cost.Model{
		Name: model, Layers: 6, Hidden: 192, Intermediate: 512, Vocab: 1024, Heads: 6, KVHeads: 2, HeadDim: 32,
		Tied: true, WeightBits: 32, KVElementBytes: 4,
	}, Steps: &cost.Stepped{Steps: cost.Steps{Form: cost.Sum, FixedUS: 2000}}}
}

// run simulates a recording.
func run(t *testing.T, r *recording.Recording) []Metric {
	t.Helper()
	cfg, err := Config(r, "test", []cost.Profile{profile("other"), profile("kjv-2m")})
	if err != nil {
		t.Fatal(err)
	}
	requests, _ := r.Workload()
	result, err := simulate.Run(cfg, workload.Of(requests))
	if err != nil {
		t.Fatal(err)
	}
	return Compare(r, result)
}

// TestPrefixesAreShared checks that simulated prompts share blocks as the recorded ones did: the second prompt begins
// with three blocks of the first one, and the third one with none.
func TestPrefixesAreShared(t *testing.T) {
	all := run(t, recordedCluster(recording.Hashes{1, 2, 3, 4, 5}, recording.Hashes{1, 2, 3, 9, 8},
		recording.Hashes{7, 2, 3, 4, 5}))
	for _, m := range all {
		if m.Name == KVHits && *m.Simulated != 48.0/(3*81) {
			t.Errorf("hits %v", *m.Simulated)
		}
	}
}

// TestCompare checks the errors of metrics, and the table.
func TestCompare(t *testing.T) {
	all := run(t, recordedCluster(recording.Hashes{1}, recording.Hashes{2}))
	want := map[string]string{ // a step takes 2 ms
		TTFTP50: "4.00 ms 2.00 ms -50.0 %", TPOTP99: "1.00 ms 2.00 ms +100.0 %", Throughput: "11.0 11.0 +0.0 %",
		KVHits: "94.1 % 0.0 % -100.0 %", Steps: "200 22 -89.0 %", Loads: "0 - -", Switches: "0 - -",
	}
	for _, m := range all {
		text := m.RecordedText() + " " + m.SimulatedText() + " " + m.ErrorText()
		if w, ok := want[m.Name]; ok && text != w && !(m.Name == Throughput && m.Error != nil && *m.Error < 0.02) {
			t.Errorf("%s: %s, want %s", m.Name, text, w)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("%v are missing", want)
	}
	if worst, ok := Worst(all); !ok || worst.Name != TPOTP50 || *worst.Error != 1 {
		t.Errorf("%+v", worst)
	}
	if _, ok := Worst(nil); ok {
		t.Error("no metric is the worst")
	}
	var b strings.Builder
	err := Print(&b, "test", 2e9, all)
	if err != nil || !strings.Contains(b.String(), "\nWorst: TPOT P50 of chat, +100") {
		t.Errorf("%v: %s", err, &b)
	}
}

// TestConfig checks the places of replicas, and that costs of another model are not used.
func TestConfig(t *testing.T) {
	r := recordedCluster(recording.Hashes{1})
	r.Snapshot.Nodes[1].Tiers = []recording.Tier{
		{Name: "dram", Bytes: 1 << 30, Policy: "s3-fifo", Watermark: 0.9}, {Name: "remote", Bytes: 1 << 28}}
	costs := profile("kjv-2m")
	costs.Copies.HostToDevice = &cost.Transferred{Linear: cost.Linear{BytesPerSecond: 3e9}}
	cfg, err := Config(r, "test", []cost.Profile{costs})
	if err != nil {
		t.Fatal(err)
	}
	tiers := simulate.Tiers{DRAM: 1 << 30, Remote: 1 << 28, Policy: "s3-fifo", Watermark: 0.9}
	if len(cfg.Nodes) != 1 || cfg.Nodes[0].Name != "b" || cfg.Nodes[0].Tiers != tiers ||
		cfg.Devices[1].Up.BytesPerSecond != 3e9 || cfg.Devices[1].Down.BytesPerSecond != 0 {
		t.Errorf("%+v, %+v", cfg.Nodes, cfg.Devices)
	}
	d := cfg.Deployments[0]
	if strings.Join(d.Devices, " ") != "a/gpu-0 b/gpu-0" || d.KVBlocks != 128 || d.KVTokenBytes != 384 ||
		cfg.KVReserve != 0.25 || cfg.Duration != 1e9 {
		t.Errorf("%+v", cfg)
	}
	for _, profiles := range [][]cost.Profile{nil, {profile("other")}, {{Device: cost.Device{Name: "host device"}}}} {
		if _, err := Config(r, "test", profiles); err == nil || !strings.Contains(err.Error(), "set --costs") {
			t.Errorf("%v", err)
		}
	}
	r.Snapshot.Profiles = []string{"version: 2"}
	if _, err := Profiles(r); err == nil || !strings.Contains(err.Error(), "profile 1 of the recording") {
		t.Errorf("%v", err)
	}
	r.Snapshot.Deployments[0].ContextTokens = 0
	if _, err := Config(r, "test", nil); err == nil || !strings.Contains(err.Error(), "record again") {
		t.Errorf("%v", err)
	}
}
