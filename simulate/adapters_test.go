package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/deployment"
	"troupe/core/hbm"
	"troupe/workload"
)

// adapters draws the adapters of a deployment, or none.
func adapters(t *rapid.T) *Adapters {
	if !rapid.Bool().Draw(t, "adapters") {
		return nil
	}
	return &Adapters{Pages: rapid.IntRange(2, 6).Draw(t, "pages"), Max: rapid.IntRange(1, 4).Draw(t, "most"),
		Bytes: []int64{hbm.PageBytes, 3 << 20}}
}

// drawParts draws the adapters of the deployments, what the devices of the nodes share, and their links.
func drawParts(t *rapid.T, cfg *Config) {
	for i := range cfg.Deployments {
		d := &cfg.Deployments[i]
		d.Adapters, d.Layers = adapters(t), rapid.IntRange(0, 8).Draw(t, "layers")
	}
	bandwidth := rapid.SampledFrom([]float64{0, 1e8, 1e9, 1e10}).Draw(t, "link")
	drawn := make(map[string]bool) // nodes
	for i := range cfg.Devices {
		d := &cfg.Devices[i]
		d.Up, d.Down = Link{BytesPerSecond: bandwidth}, Link{BytesPerSecond: bandwidth}
		at := slices.IndexFunc(cfg.Nodes, func(n Node) bool { return n.Name == d.Node })
		if at < 0 {
			cfg.Nodes, at = append(cfg.Nodes, Node{Name: d.Node}), len(cfg.Nodes)
		}
		if n := &cfg.Nodes[at]; !drawn[d.Node] {
			drawn[d.Node] = true
			n.Tiers, n.HostCache = drawTiers(t), n.HostCache+int64(rapid.IntRange(0, 3).Draw(t, "host MiB"))<<22
			n.DiskRead = Link{BytesPerSecond: rapid.SampledFrom([]float64{0, 1e7, 1e9}).Draw(t, "disk")}
		}
	}
}

// name gives most requests an adapter, if their deployment takes any.
func name(cfg Config, all []workload.Request) {
	for i := range all {
		at := slices.IndexFunc(cfg.Deployments, func(d Deployment) bool { return d.Name == all[i].Model })
		if cfg.Deployments[at].Adapters != nil && i%4 > 0 {
			all[i].Adapter = string(rune('a' + i*i%5))
		}
	}
}

// withAdapters returns a deployment that takes two adapters of two pages each at a time.
func withAdapters() Deployment {
	d := deploy("m", 1)
	d.Times = map[string]StepTimer{"software": linear{fixed: 10 * time.Millisecond}}
	d.Adapters = &Adapters{Pages: 4, Max: 2, Bytes: []int64{2 * hbm.PageBytes}}
	return d
}

// slowLinks returns a node whose disk reads an adapter in 40 ms, and a device to which it is copied in 4 ms.
func slowLinks(hostCache int64) Config {
	cfg := Config{Duration: time.Minute, Devices: devices(1), Deployments: []Deployment{withAdapters()}}
	cfg.Devices[0].Up = Link{BytesPerSecond: 2 * hbm.PageBytes / 0.004}
	cfg.Nodes = []Node{{Name: "a", HostCache: hostCache, DiskRead: Link{BytesPerSecond: 2 * hbm.PageBytes / 0.04}}}
	return cfg
}

// TestAdapterLoads computes the waits for adapters by hand: from disk, from host memory, and for a copy that waits
// for another one on the same link.
func TestAdapterLoads(t *testing.T) {
	of := func(adapters string) (all []workload.Request) {
		for i, a := range adapters {
			all = append(all, workload.Request{At: time.Duration(i) * time.Second, Prompt: 10, Output: 2,
				Adapter: string(a)})
		}
		return all
	}
	at := func(r workload.Request, at time.Duration) workload.Request { r.At = at; return r }
	both := []workload.Request{at(of("a")[0], 0), at(of("b")[0], 0)}
	for name, c := range map[string]struct {
		host         int64
		all          []workload.Request
		loads, reads uint64
		evictions    uint64
		hits         float64
		p50, p99     time.Duration
	}{
		"once":          {0, of("aaaa"), 1, 1, 0, 0.75, 44 * time.Millisecond, 44 * time.Millisecond},
		"each time":     {0, of("abcabc"), 6, 6, 4, 0, 44 * time.Millisecond, 44 * time.Millisecond},
		"from host":     {1 << 30, of("abcabc"), 6, 3, 4, 0, 4 * time.Millisecond, 44 * time.Millisecond},
		"one too small": {1 << 20, of("abcabc"), 6, 6, 4, 0, 44 * time.Millisecond, 44 * time.Millisecond},
		"one disk":      {0, both, 2, 2, 0, 0, 44 * time.Millisecond, 84 * time.Millisecond},
	} {
		result, record := simulate(t, slowLinks(c.host), c.all)
		m := result.Models[0]
		if m.Finished != len(c.all) || *m.AdapterLoads != c.loads || *m.AdapterReads != c.reads ||
			*m.AdapterEvictions != c.evictions || *m.AdapterHits != c.hits || *m.AdapterPrefetches != 0 {
			t.Errorf("%s: %d of %d ended, %d loads, %d from disk, %d evicted, %.2f hits", name, m.Finished, len(c.all),
				*m.AdapterLoads, *m.AdapterReads, *m.AdapterEvictions, *m.AdapterHits)
		}
		if *m.AdapterWaitP50 != c.p50.Seconds() || *m.AdapterWaitP99 != c.p99.Seconds() {
			t.Errorf("%s: waits of %v and %v", name, *m.AdapterWaitP50, *m.AdapterWaitP99)
		}
		if first := c.p50 + 10*time.Millisecond; name == "once" && *m.TTFTP99 != first.Seconds() {
			t.Errorf("TTFT %v, want %v", *m.TTFTP99, first)
		}
		if strings.Count(record, `"event":"adapter-loaded"`) != int(c.loads) {
			t.Errorf("%s: %s", name, record)
		}
	}
}

// TestRequestsGoWhereTheirAdapterIs checks that the router knows where adapters are.
func TestRequestsGoWhereTheirAdapterIs(t *testing.T) {
	cfg := slowLinks(0)
	cfg.Devices = append(cfg.Devices, Device{Node: "a", Name: "gpu-1", Kind: "software", Memory: 8 << 30})
	cfg.Deployments[0].Replicas = 2
	var all []workload.Request
	for i := range 40 {
		all = append(all, workload.Request{At: time.Duration(i) * time.Second, Prompt: 10, Output: 2,
			Adapter: string(rune('a' + i%4))})
	}
	result, _ := simulate(t, cfg, all)
	if m := result.Models[0]; *m.AdapterLoads > 8 {
		t.Errorf("%d loads of four adapters that fit on two devices", *m.AdapterLoads)
	}
}

// TestLivesOfAdapters checks that the adapters of a replica that crashes are loaded again, from the host cache, and
// that those of a node that is lost are read from its disk.
func TestLivesOfAdapters(t *testing.T) {
	all := []workload.Request{{At: time.Second, Prompt: 10, Output: 2, Adapter: "a"},
		{At: 10 * time.Minute, Prompt: 10, Output: 2, Adapter: "a"}}
	for name, c := range map[string]struct {
		fault Fault
		reads uint64
	}{
		"crash":     {Fault{At: 5 * time.Minute, Replica: "m-0"}, 1},
		"node loss": {Fault{At: 5 * time.Minute, Node: "a", For: time.Minute}, 2},
		// The crash is while the adapter is copied to the device: the copy has no result.
		"mid-copy": {Fault{At: time.Second + 42*time.Millisecond, Replica: "m-0"}, 2},
	} {
		cfg := slowLinks(1 << 30)
		cfg.Duration, cfg.Faults = 20*time.Minute, []Fault{c.fault}
		result, record := simulate(t, cfg, all)
		if m := result.Models[0]; m.Finished != 2 || *m.AdapterLoads != 2 || *m.AdapterReads+
			uint64(strings.Count(record, `"event":"interrupt"`)) != c.reads {
			t.Errorf("%s: %d ended, %d loads, %d from disk", name, m.Finished, *m.AdapterLoads, *m.AdapterReads)
		}
	}
}

// TestImagesShareTheHostCache checks that weights and adapters are in one host cache: weights that are parked there
// evict an adapter.
func TestImagesShareTheHostCache(t *testing.T) {
	for room, reads := range map[int64]uint64{2 << 30: 1, 1<<30 + 1<<20: 2} {
		cfg := slowLinks(room)
		d := sleeps("n", 0)
		d.Level = deployment.Parked
		cfg.Deployments, cfg.Duration = append(cfg.Deployments, d), 20*time.Minute
		cfg.Faults = []Fault{{At: 10 * time.Minute, Replica: "m-0"}}
		result, record := simulate(t, cfg, []workload.Request{{Model: "m", Prompt: 10, Output: 2, Adapter: "a"},
			{At: time.Minute, Model: "n", Prompt: 10, Output: 2},
			{At: 15 * time.Minute, Model: "m", Prompt: 10, Output: 2, Adapter: "a"}})
		if m := result.Models[0]; *m.AdapterReads != reads {
			t.Errorf("with %d MiB the adapter was read %d times\n%s", room>>20, *m.AdapterReads, lives(record))
		}
	}
}
