package simulate

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/kv"
	"troupe/workload"
)

// drawTiers draws the KV tiers of a node, or none.
func drawTiers(t *rapid.T) Tiers {
	return Tiers{DRAM: int64(rapid.IntRange(0, 4).Draw(t, "dram")) << 27,
		NVMe:      int64(rapid.IntRange(0, 4).Draw(t, "nvme")) << 28,
		Policy:    rapid.SampledFrom(kv.PolicyNames()).Draw(t, "policy"),
		Watermark: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "watermark"),
		Restore:   rapid.SampledFrom([]kv.RestorePolicy{kv.RestoreAuto, kv.RestoreAlways}).Draw(t, "restore")}
}

// tiered returns a configuration with 160 KV blocks of 1 MiB in HBM, and tiers with room for a number of blocks.
func tiered(dram, nvme int) Config {
	d := deployment("m", 1)
	d.KVBlocks, d.ContextTokens = 160, 2048
	d.Times = map[string]StepTimer{"software": linear{fixed: 10 * time.Millisecond, prompt: time.Millisecond}}
	cfg := Config{Duration: time.Hour, Devices: devices(1), Deployments: []Deployment{d}}
	cfg.Devices[0].Up, cfg.Devices[0].Down = Link{BytesPerSecond: 1 << 30}, Link{BytesPerSecond: 1 << 30}
	cfg.Nodes = []Node{{Name: "a", DiskRead: Link{BytesPerSecond: 1 << 28}, DiskWrite: Link{BytesPerSecond: 1 << 28},
		Tiers: Tiers{DRAM: int64(dram) << 20, NVMe: int64(nvme) << 20, Watermark: 0.5}}}
	return cfg
}

// rounds returns requests for several prompts of 1,024 tokens in turn, which together do not fit in HBM.
func rounds(prompts, n int) (all []workload.Request) {
	for i := range n * prompts {
		all = append(all, workload.Request{At: time.Duration(i) * 10 * time.Second, Prompt: 1024, Output: 40,
			PrefixBlock: 1024, Prefix: []uint64{uint64(i%prompts) << 7}})
	}
	return all
}

// TestBlocksAreRestored checks that prompts whose blocks left HBM are restored and not computed again, from the tier
// that has them, and that the restore takes as long as the link does.
func TestBlocksAreRestored(t *testing.T) {
	cold, _ := simulate(t, tiered(0, 0), rounds(4, 4))
	if m := cold.Models[0]; m.Offloaded != nil || *m.KVHits > 0.5 {
		t.Fatalf("without tiers: %+v", m)
	}
	for name, c := range map[string]struct {
		dram, nvme int
		from       func(ModelResult) *uint64
	}{
		"dram": {1024, 0, func(m ModelResult) *uint64 { return m.RestoredDRAM }},
		"nvme": {0, 1024, func(m ModelResult) *uint64 { return m.RestoredNVMe }},
	} {
		result, record := simulate(t, tiered(c.dram, c.nvme), rounds(4, 4))
		m := result.Models[0]
		if m.Finished != 16 || *m.Offloaded == 0 || *c.from(m) < 12*900 || *m.Restores < 10 {
			t.Errorf("%s: %d ended, %d offloaded, %d and %d restored", name, m.Finished, *m.Offloaded, *m.RestoredDRAM,
				*m.RestoredNVMe)
		}
		if *m.RestoredDRAM+*m.RestoredNVMe != *c.from(m) {
			t.Errorf("%s: restored from another tier", name)
		}
		if *m.TTFTP50 >= *cold.Models[0].TTFTP50/2 {
			t.Errorf("%s: TTFT %v, and without tiers %v", name, *m.TTFTP50, *cold.Models[0].TTFTP50)
		}
		if !strings.Contains(record, `"event":"restore","replica":"m-0"`) {
			t.Errorf("%s: no restore in the record", name)
		}
	}
}

// TestSlowTiersAreAvoided checks the rule of the product: blocks on a path that is slower than computing them are
// left where they are.
func TestSlowTiersAreAvoided(t *testing.T) {
	cfg := tiered(1024, 0)
	cfg.Devices[0].Up.BytesPerSecond = 1 << 24
	result, _ := simulate(t, cfg, rounds(4, 8))
	if m := result.Models[0]; *m.Avoided < 10 || *m.RestoredDRAM > 6*1024 {
		t.Errorf("%d avoided, %d tokens restored", *m.Avoided, *m.RestoredDRAM)
	}
}

// TestFastTiersAreUsed checks that copies that take no time are measured too.
func TestFastTiersAreUsed(t *testing.T) {
	cfg := tiered(1024, 0)
	cfg.Devices[0].Up = Link{}
	result, _ := simulate(t, cfg, rounds(4, 4))
	if m := result.Models[0]; *m.RestoredDRAM < 10*1000 {
		t.Errorf("%d tokens restored by %d restores", *m.RestoredDRAM, *m.Restores)
	}
}

// TestBlocksAreDemoted checks that blocks for which DRAM has no room go to the disk, and come back.
func TestBlocksAreDemoted(t *testing.T) {
	result, _ := simulate(t, tiered(160, 1024), rounds(8, 4))
	if m := result.Models[0]; m.Finished != 32 || *m.RestoredNVMe == 0 || *m.RestoredDRAM+*m.RestoredNVMe < 16*900 {
		t.Errorf("%d ended; %d tokens from DRAM and %d from disk", m.Finished, *m.RestoredDRAM, *m.RestoredNVMe)
	}
}

// TestRestoresShareALink checks that two devices of a node read its disk one after the other, and their own links at
// the same time.
func TestRestoresShareALink(t *testing.T) {
	l := link{Link: Link{BytesPerSecond: 1000, Latency: time.Millisecond}, sim: &simulation{key: key{at: epoch}}}
	first, second := l.blocks(2, 500), l.blocks(1, 500)
	if since(first[0]) != 501*time.Millisecond || since(first[1]) != 1001*time.Millisecond ||
		since(second[0]) != 1502*time.Millisecond {
		t.Errorf("%v, then %v", first, second)
	}
	if l.cut(second[0], first[1]); !l.free.Equal(first[1]) {
		t.Errorf("after a cut it is free from %v on", since(l.free))
	}
}
