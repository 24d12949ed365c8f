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

// story is a golden output of stories260K, with an adapter or none.
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

// TestStoriesGoldens: through a whole node, the adapters of stories260K give the outputs that another program computed: alone, and all in one batch
// with each other and the base model, while those of the shipped model do so beside them on the same device.
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

// TestAdaptersMakeRoom: with no memory left on its device, a model gives KV blocks up for its first adapters, while it runs.
func TestAdaptersMakeRoom(t *testing.T) {
	n := start(t, func(c *node.Config) {
		c.Devices = []host.Config{{MemoryBytes: 64 << 20}}
		c.Deployments[0].MaxSequences = new(uint32(8))
	})
	before := replica(t, n, "kjv").GetKvBlocks()
	second := kjvSpec(1)
	second.Name, second.Path, second.KvBlocks = "second", testkit.Model(), new(uint32(170)) // the rest of the 64 MiB
	deploy(t, n, second)
	if r := replica(t, n, "kjv"); r.GetKvBlocks() != before {
		t.Fatalf("it gave way too early: %d KV blocks of %d", r.GetKvBlocks(), before)
	}
	generateMixed(t, n, 2)
	waitFor(t, "fewer KV blocks", func() bool { return replica(t, n, "kjv").GetKvBlocks() < before })
}

// TestAdapterMetrics: one adapter after the other, of which one fits, then the first again. Host memory has those that were read.
func TestAdapterMetrics(t *testing.T) {
	n := start(t, withAdapterPages(1))
	for _, adapter := range []string{"psalms", "psalms", "shout", "psalms"} {
		g := adapterGoldens(t, adapter)[0]
		checkOutput(t, "alone", adapter, g, openSession(t, n, adapterSequence(adapter, g)))
	}
	var lines string
	for name, value := range map[string]int{
		`held{location="gpu",%s}`: 1, `held{location="dram",%s}`: 1, `pages{%s,state="free"}`: 0,
		`pages{%s,state="used"}`: 1, `awaited{%s}`: 0,
		`hits_total{%s}`: 1, `loads_total{from="disk",%s}`: 2, `loads_total{from="dram",%s}`: 1,
		`evictions_total{%s}`: 2, `load_failures_total{%s}`: 0,
	} {
		want := fmt.Sprintf("troupe_adapter_"+name+" %d\n", `model="kjv",replica="kjv-0"`, value)
		waitFor(t, want, func() bool { lines = scrape(t, n); return strings.Contains(lines, want) })
	}
	t.Log(lines)
}
