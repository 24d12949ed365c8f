package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"troupe/core/kv"
	"troupe/core/units"
	"troupe/node"
)

const (
	// maxDefaultDRAM bounds the default size of the DRAM tier, in bytes. The default is the free memory
	// divided by freeMemoryDivisor.
	maxDefaultDRAM    = 16 << 30
	freeMemoryDivisor = 8
	// weightsMemoryDivisor gives the default size of the host cache of weights likewise.
	weightsMemoryDivisor = 4
	// minTierBytes is the smallest tier. A smaller size is taken for a mistake.
	minTierBytes = 1 << 20
)

// setTiers sets the sizes and the policy of the KV tiers below the GPUs, and the size of the cache of
// weights.
func (s *settings) setTiers(cfg *node.Config) {
	t := node.TiersConfig{
		NVMeBytes: bytesOf(s.KVNVMe), DRAMBytes: bytesOf(s.KVDRAM), Policy: s.KVPolicy,
		Restore:  kv.RestorePolicy(s.KVRestore),
		NVMePath: s.KVNVMePath, DRAMOptional: s.KVDRAM == "",
		RemoteBytes: bytesOf(s.KVRemote),
	}
	t.LocalOnly = s.KVRemote != "" && t.RemoteBytes == 0
	t.Watermark, _ = strconv.ParseFloat(s.KVWatermark, 64) // validated with the other options
	if s.KVDRAM == "" {
		t.DRAMBytes = min(freeMemory()/freeMemoryDivisor, maxDefaultDRAM)
	}
	if s.KVNVMePath == "" {
		t.NVMePath = filepath.Join(s.Data, "kv")
	}
	cfg.Tiers = t
	if cfg.WeightsHostBytes = bytesOf(s.WeightsDRAM); s.WeightsDRAM == "" {
		cfg.WeightsHostBytes = freeMemory() / weightsMemoryDivisor
	}
	cfg.WeightsDiskBytes, cfg.WeightsDiskPath = bytesOf(s.WeightsImages), filepath.Join(s.Data, "weights")
}

func defaultWatermark() string { return fmt.Sprint(kv.DefaultWatermark) }

// bytesOf returns a validated size in bytes; 0 for an empty one.
func bytesOf(size string) int64 {
	n, _ := units.ParseBytes(size)
	return n
}

func checkSize(s string) error {
	_, err := units.ParseBytes(s)
	return err
}

// checkTierSize accepts 0 and the sizes that hold at least some KV blocks.
func checkTierSize(s string) error {
	n, err := units.ParseBytes(s)
	if err == nil && n > 0 && n < minTierBytes {
		err = fmt.Errorf("%s is too small for KV blocks; use at least %s, or 0 to disable the tier",
			units.FormatBytes(n), units.FormatBytes(minTierBytes))
	}
	return err
}

func checkShare(s string) error {
	if f, err := strconv.ParseFloat(s, 64); err != nil || !(f > 0 && f <= 1) {
		return fmt.Errorf("%q is not a share above 0 and at most 1; write it like 0.9", s)
	}
	return nil
}

func checkPolicy(s string) error {
	_, err := kv.NewPolicy(s, 1)
	return err
}

// checkRestore reports an unknown restore policy.
func checkRestore(s string) error {
	_, err := kv.ParseRestorePolicy(s)
	return err
}

// freeMemory returns the available memory of this machine in bytes, or of its control group if that
// is less.
func freeMemory() int64 {
	free := int64(assumedMemory)
	if in, err := os.Open("/proc/meminfo"); err == nil {
		defer in.Close()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var kib int64
			if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); err == nil {
				free = kib << 10
			}
		}
	}
	most, limited := cgroupBytes("memory.max")
	used, _ := cgroupBytes("memory.current")
	if limited {
		free = min(free, max(0, most-used))
	}
	return free
}

// cgroupBytes reads a number from the process's control group (cgroup v2), as a container sees it.
// It reports false for "max", which is no limit.
func cgroupBytes(name string) (int64, bool) {
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
