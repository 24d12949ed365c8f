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
	// mostDRAM is the most host memory that is taken for KV blocks where nobody says how much, and freeShare the part of what is free.
	mostDRAM  = 16 << 30
	freeShare = 8
	// leastRoom is the least of a tier that anybody may have meant.
	leastRoom = 1 << 20
)

// tiers settles how much room there is for KV blocks below the GPUs.
func (s *settings) tiers(cfg *node.Config) {
	t := node.TiersConfig{
		NVMeBytes: bytesOf(s.KVNVMe), DRAMBytes: bytesOf(s.KVDRAM), Policy: s.KVPolicy,
		Restore:  kv.RestorePolicy(s.KVRestore),
		NVMePath: s.KVNVMePath, DRAMOptional: s.KVDRAM == "",
		RemoteBytes: bytesOf(s.KVRemote),
	}
	t.LocalOnly = s.KVRemote != "" && t.RemoteBytes == 0
	t.Watermark, _ = strconv.ParseFloat(s.KVWatermark, 64) // checked with the other options
	if s.KVDRAM == "" {
		t.DRAMBytes = min(freeMemory()/freeShare, mostDRAM)
	}
	if s.KVNVMePath == "" {
		t.NVMePath = filepath.Join(s.Data, "kv")
	}
	cfg.Tiers = t
}

func defaultWatermark() string { return fmt.Sprint(kv.DefaultWatermark) }

// bytesOf is a size that was checked; of nothing, 0.
func bytesOf(size string) int64 {
	n, _ := units.ParseBytes(size)
	return n
}

func checkSize(s string) error {
	_, err := units.ParseBytes(s)
	return err
}

// checkRoom takes a size that some KV blocks have room in, or none.
func checkRoom(s string) error {
	n, err := units.ParseBytes(s)
	if err == nil && n > 0 && n < leastRoom {
		err = fmt.Errorf("%s has no room for KV blocks; give at least %s, written like 8GiB, or 0 for none", units.FormatBytes(n), units.FormatBytes(leastRoom))
	}
	return err
}

func checkShare(s string) error {
	if f, err := strconv.ParseFloat(s, 64); err != nil || !(f > 0 && f <= 1) {
		return fmt.Errorf("%q is not a share; write it like 0.9, more than 0 and at most 1", s)
	}
	return nil
}

func checkPolicy(s string) error {
	_, err := kv.NewPolicy(s, 1)
	return err
}

func checkRestore(s string) error {
	_, err := kv.ParseRestorePolicy(s)
	return err
}

// freeMemory is how much memory this machine could give in bytes, or the control group that the process is in.
func freeMemory() int64 {
	free := int64(someMemory)
	if in, err := os.Open("/proc/meminfo"); err == nil {
		defer in.Close()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var kib int64
			if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); err == nil {
				free = kib << 10
			}
		}
	}
	most, limited := groupBytes("memory.max")
	used, _ := groupBytes("memory.current")
	if limited {
		free = min(free, max(0, most-used))
	}
	return free
}

// groupBytes reads a number of the process's control group (cgroup v2), as a container sees it.
func groupBytes(name string) (int64, bool) {
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil // "max": no limit
}
