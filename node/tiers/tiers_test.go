package tiers_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"troupe/core/kv"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/node/tiers"
)

// TestOpen checks that the tiers are ordered, fastest first, and which sizes are refused.
func TestOpen(t *testing.T) {
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	both := tiers.Config{
		DRAMBytes: 64 << 20, NVMeBytes: 64 << 20, NVMePath: filepath.Join(t.TempDir(), "kv"),
		Watermark: kv.DefaultWatermark, Policy: kv.DefaultPolicy,
	}
	open := func(change func(*tiers.Config)) (*tiers.Tiers, error) {
		cfg := both
		change(&cfg)
		return tiers.Open(cfg, d.AllocHost, zerolog.Nop())
	}
	all, err := open(func(*tiers.Config) {})
	if err != nil {
		t.Fatal(err)
	}
	all.Close()
	if details := all.Details(); len(details) != 2 || all.Lower[0].Name != "dram" || all.Lower[1].Name != "nvme" ||
		!strings.Contains(details[0], "of host memory") {
		t.Errorf("%q", details)
	}
	if none, err := tiers.Open(tiers.Config{}, d.AllocHost, zerolog.Nop()); err != nil || len(none.Lower) != 0 {
		t.Error(err)
	}
	for want, change := range map[string]func(*tiers.Config){
		"--kv-dram":      func(c *tiers.Config) { c.DRAMBytes = 1 },
		"--kv-nvme":      func(c *tiers.Config) { c.NVMeBytes = 1 },
		"--kv-nvme-path": func(c *tiers.Config) { c.NVMePath = filepath.Join(t.TempDir(), "none", "kv") },
	} {
		if _, err := open(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
}

// TestDRAMOptional checks that a node without the memory for a tier can start without it.
func TestDRAMOptional(t *testing.T) {
	none := func(int64) (cuda.HostMemory, error) { return nil, cuda.ErrOutOfMemory }
	cfg := tiers.Config{DRAMBytes: 64 << 20}
	if _, err := tiers.Open(cfg, none, zerolog.Nop()); err == nil {
		t.Error("opened without memory")
	}
	cfg.DRAMOptional = true
	if all, err := tiers.Open(cfg, none, zerolog.Nop()); err != nil || len(all.Lower) != 0 {
		t.Error(err)
	}
}
