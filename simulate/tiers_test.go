package simulate

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/kv"
	"troupe/core/restore"
	"troupe/core/tier"
	"troupe/workload"
)

// drawTiers draws the KV tiers of a node, or none.
func drawTiers(t *rapid.T) Tiers {
	return Tiers{DRAM: int64(rapid.IntRange(0, 4).Draw(t, "dram")) << 27,
		NVMe:      int64(rapid.IntRange(0, 4).Draw(t, "nvme")) << 28,
		Remote:    rapid.SampledFrom([]int64{0, 1 << 21, 1 << 28}).Draw(t, "remote"),
		Policy:    rapid.SampledFrom(kv.PolicyNames()).Draw(t, "policy"),
		Watermark: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "watermark"),
		Restore:   rapid.SampledFrom([]kv.RestorePolicy{kv.RestoreAuto, kv.RestoreAlways}).Draw(t, "restore")}
}

// tiered returns a configuration with 160 KV blocks of 1 MiB in HBM, and tiers with room for a number of blocks.
func tiered(dram, nvme int) Config {
	d := deploy("m", 1)
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

// TestPrefillOverlapsRestore checks that a prefill begins before the last part of its blocks has arrived.
func TestPrefillOverlapsRestore(t *testing.T) {
	all := rounds(8, 4)
	for i := range all { // the second half of each prompt is its own
		all[i].PrefixBlock, all[i].Prefix = 512, []uint64{uint64(i%8) << 7}
	}
	var ttft []float64
	for _, layers := range []int{1, 4} {
		cfg := tiered(1024, 0)
		cfg.Deployments[0].Layers = layers
		result, _ := simulate(t, cfg, all)
		if m := result.Models[0]; *m.Restores < 20 {
			t.Errorf("%d layers: %d restores", layers, *m.Restores)
		}
		ttft = append(ttft, *result.Models[0].TTFTP50)
	}
	// 32 blocks of 1 MiB take 31 ms at 1 GiB/s, and the first of four parts 8 ms.
	if saved := ttft[0] - ttft[1]; saved < 0.020 || saved > 0.025 {
		t.Errorf("TTFT %v in one part, %v in four", ttft[0], ttft[1])
	}
}

// TestGates computes by hand when steps end that wait for parts.
func TestGates(t *testing.T) {
	ms := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Millisecond) }
	for name, c := range map[string]struct {
		gates []*gate
		ends  int
		abort int // entry; -1: none
	}{
		"no gate":        {[]*gate{nil}, 40, -1},
		"all there":      {[]*gate{{[]time.Time{ms(0), ms(0)}, ms(100), kv.GateTimeout}}, 40, -1},
		"in time":        {[]*gate{{[]time.Time{ms(0), ms(20)}, ms(100), kv.GateTimeout}}, 40, -1},
		"waits":          {[]*gate{nil, {[]time.Time{ms(5), ms(35)}, ms(100), kv.GateTimeout}}, 55, -1},
		"waits too long": {[]*gate{nil, {[]time.Time{ms(5), ms(45)}, ms(100), kv.GateTimeout}}, 40, 1},
		"never comes":    {[]*gate{{[]time.Time{ms(5), ms(45)}, ms(30), kv.GateTimeout}}, 30, 0},
		"failed before":  {[]*gate{{[]time.Time{ms(5), ms(45)}, ms(10), kv.GateTimeout}}, 25, 0},
		"two": {[]*gate{{[]time.Time{ms(5), ms(5)}, ms(99), kv.GateTimeout},
			{[]time.Time{ms(9), ms(40)}, ms(99), kv.GateTimeout}}, 60, -1},
	} {
		ends, why := passAll(c.gates, epoch, 40*time.Millisecond)
		if got := since(ends); got != time.Duration(c.ends)*time.Millisecond || (why == nil) != (c.abort < 0) ||
			why != nil && why.entry != c.abort {
			t.Errorf("%s: ends after %v, %+v", name, got, why)
		}
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
	first, second := l.read(2, 500, 2, 0), l.read(1, 500, 1, 0)
	for _, c := range []struct {
		name string
		at   time.Time
		want time.Duration
	}{
		{"first part", first.partEnds(0), 501}, {"second part", first.partEnds(1), 1001},
		{"first block", first.blockEnds(), 751}, {"second block", first.blockEnds(), 1001},
		{"the block behind them", second.blockEnds(), 1502},
	} {
		if since(c.at) != c.want*time.Millisecond {
			t.Errorf("%s after %v, want %v ms", c.name, since(c.at), int(c.want))
		}
	}
	first.cut(epoch)
	if since(l.free) != 1502*time.Millisecond {
		t.Errorf("free from %v on, though a later copy was booked", since(l.free))
	}
	if second.cut(epoch.Add(1200 * time.Millisecond)); since(l.free) != 1200*time.Millisecond {
		t.Errorf("after a cut it is free from %v on", since(l.free))
	}
}

// TestLivesOfTiers checks that the blocks in the tiers of a node outlive a replica that crashes, and no loss of the
// node.
func TestLivesOfTiers(t *testing.T) {
	all := rounds(1, 3)
	for i := range all {
		all[i].At = []time.Duration{0, 20 * time.Second, 10 * time.Minute}[i]
	}
	for name, c := range map[string]struct {
		fault    Fault
		restored uint64
	}{
		"crash":     {Fault{At: 5 * time.Minute, Replica: "m-0"}, 1},
		"node loss": {Fault{At: 5 * time.Minute, Node: "a", For: time.Minute}, 0},
	} {
		cfg := tiered(1024, 0)
		cfg.Nodes[0].Tiers.Watermark, cfg.Faults = 0.1, []Fault{c.fault}
		result, _ := simulate(t, cfg, all)
		if m := result.Models[0]; m.Finished != 3 || *m.Offloaded == 0 || *m.Restores != c.restored {
			t.Errorf("%s: %d ended, %d tokens offloaded, %d restores", name, m.Finished, *m.Offloaded, *m.Restores)
		}
	}
}

// TestCrashFreesTiers checks that a replica that crashes while blocks are restored for it leaves none locked: the
// next restore finds the tier as it was.
func TestCrashFreesTiers(t *testing.T) {
	s, err := start(tiered(1024, 0))
	if err != nil {
		t.Fatal(err)
	}
	r := s.named("m-0")
	below, tiers := r.device.node.tiers[0], r.tiering
	hashes := kv.Hashes(r.model.root, make([]uint32, 16), 16)
	inTiers := tiers.inTiers(hashes)
	below.reserve("x", inTiers, int(r.model.blockSize()), func(g grant) { below.commit("x", inTiers) })
	s.deliver()
	tiers.lookUp(restore.LookUp{Number: 1, Hashes: hashes})
	flushed := func(id string) int { // a block that is locked is kept
		return len(below.machine.Flush(id, tier.Actor{})[0].(tier.Erase).Slots)
	}
	if n := flushed("before"); n != 0 {
		t.Fatalf("%d blocks were not locked", n)
	}
	r.restart()
	s.deliver()
	if n := flushed("after"); n != 1 || len(tiers.lookups) != 0 || r.tiering == tiers {
		t.Errorf("%d blocks were free after the crash", n)
	}
}
