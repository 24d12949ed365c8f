package node_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// story is a golden output of stories260K, with or without an adapter.
type story struct {
	adapter string
	testkit.Golden
}

func stories(t *testing.T) (all []story) {
	for adapter, file := range map[string]string{
		"":       "stories260K/golden_greedy64.jsonl",
		"dragon": "stories260K-lora/dragon/golden_greedy48.jsonl",
		"robot":  "stories260K-lora/robot/golden_greedy48.jsonl",
	} {
		for _, g := range testkit.JSONLines[testkit.Golden](t, testkit.Shared(t, filepath.Join("data/models", file))) {
			all = append(all, story{adapter, g})
		}
	}
	return all
}

func (s story) sequence(t *testing.T) *messages.SequenceSpec {
	seq := adapterSequence("", s.Golden)
	seq.Model = "stories"
	if s.adapter != "" {
		seq.Adapter = s.adapter
		seq.AdapterSpec = &messages.AdapterSpec{
			Name: s.adapter, Model: "stories", Revision: 1,
			Path: testkit.Shared(t, "data/models/stories260K-lora/"+s.adapter),
		}
	}
	return seq
}

// TestStoriesGoldens checks that stories260K and its adapters give the outputs that a reference
// program computed: each alone, and all in one batch while the shipped model's adapters run on the
// same device.
func TestStoriesGoldens(t *testing.T) {
	path := testkit.Shared(t, "data/models/stories260K-hf")
	n := start(t, func(c *node.Config) {
		c.Devices = c.Devices[:1]
		c.Deployments = append(c.Deployments, &messages.DeploymentSpec{Name: "stories", Path: path})
	})
	all := stories(t)
	for _, s := range all {
		checkOutput(t, "alone", s.adapter, s.Golden, openSession(t, n, s.sequence(t)))
	}
	var running []*client
	for range 4 {
		for _, s := range all {
			running = append(running, openSession(t, n, s.sequence(t)))
		}
	}
	generateMixed(t, n, 4)
	for i, c := range running {
		checkOutput(t, "together", all[i%len(all)].adapter, all[i%len(all)].Golden, c)
	}
}

// TestAdaptersMakeRoom checks that a running model gives up KV blocks for its first adapters if its
// device has no free memory.
func TestAdaptersMakeRoom(t *testing.T) {
	n := start(t, func(c *node.Config) {
		c.Devices = []host.Config{{MemoryBytes: 64 << 20}}
		c.Deployments[0].MaxSequences = new(uint32(8))
	})
	before := replica(t, n, "kjv").GetKvBlocks()
	second := kjvSpec(1)
	second.Name, second.Path, second.KvBlocks = "second", testkit.Model(), new(uint32(383)) // the rest of the 64 MiB
	deploy(t, n, second)
	if r := replica(t, n, "kjv"); r.GetKvBlocks() != before {
		t.Fatalf("KV blocks were given up too early: %d of %d", r.GetKvBlocks(), before)
	}
	generateMixed(t, n, 2)
	waitFor(t, "fewer KV blocks", func() bool { return replica(t, n, "kjv").GetKvBlocks() < before })
}

// TestAdapterMetrics loads more adapters than fit, one after the other, then the first one again,
// which is cached in host memory.
func TestAdapterMetrics(t *testing.T) {
	n := start(t, func(c *node.Config) {
		withAdapterPages(1)(c)
		c.Devices = []host.Config{{MemoryBytes: 42 << 20}} // all of which the replica needs
		c.Deployments[0].KvBlocks = new(uint32(512))
		c.WeightsHostBytes = 64 << 20
	})
	for _, adapter := range []string{"psalms", "psalms", "shout", "psalms"} {
		g := adapterGoldens(t, adapter)[0]
		checkOutput(t, "alone", adapter, g, openSession(t, n, adapterSequence(adapter, g)))
	}
	var lines string
	for name, value := range map[string]int{
		`held{%s}`: 1, `pages{%s,state="free"}`: 0,
		`pages{%s,state="used"}`: 1, `pages_min{%s}`: 1, `awaited{%s}`: 0,
		`hits_total{%s}`: 1, `loads_total{from="disk",%s}`: 2, `loads_total{from="dram",%s}`: 1,
		`evictions_total{%s}`: 2, `load_failures_total{%s}`: 0,
	} {
		want := fmt.Sprintf("troupe_adapter_"+name+" %d\n", `model="kjv",replica="kjv-0"`, value)
		waitFor(t, want, func() bool { lines = scrape(t, n); return strings.Contains(lines, want) })
	}
	want := "troupe_host_cache_images{of=\"adapters\"} 2\n" // also of the one on the GPU
	waitFor(t, want, func() bool { lines = scrape(t, n); return strings.Contains(lines, want) })
	t.Log(lines)
}
