package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"troupe/core/units"
	"troupe/engine/kvstore"
	"troupe/node"
)

// checkTiers checks that memory and disk have space for the KV tiers.
func checkTiers(_ context.Context, s settings) (all []finding) {
	var cfg node.Config
	s.setTiers(&cfg)
	if want := cfg.Tiers.DRAMBytes; s.KVDRAM != "" && want > 0 {
		f := pass("kv dram", fmt.Sprintf("%s of %s free memory",
			units.FormatBytes(want), units.FormatBytes(freeMemory())))
		if want > freeMemory() {
			f.State, f.Remedy = stateFix, "reduce --kv-dram"
		}
		all = append(all, f)
	}
	if cfg.Tiers.NVMeBytes > 0 {
		all = append(all, checkDisk(cfg.Tiers.NVMePath, cfg.Tiers.NVMeBytes))
	}
	return all
}

// checkDisk checks that the file of the NVMe tier fits on its disk. The space of an existing file
// counts as free.
func checkDisk(path string, want int64) finding {
	dir := filepath.Dir(path)
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fail("kv nvme", fmt.Sprintf("%s: %v", dir, err),
			"create that folder, or set another file with --kv-nvme-path")
	}
	if err := kvstore.CheckPath(path); err != nil {
		return fail("kv nvme", fmt.Sprintf("%s: %v", path, err), "set another file with --kv-nvme-path")
	}
	free := int64(fs.Bavail) * fs.Bsize
	var file unix.Stat_t
	if err := unix.Stat(path, &file); err == nil {
		free += file.Blocks * 512
	}
	text := fmt.Sprintf("%s for %s, of %s free", units.FormatBytes(want), path, units.FormatBytes(free))
	if want > free {
		return fail("kv nvme", text, "reduce --kv-nvme, or set a file on another disk with --kv-nvme-path")
	}
	if err := checkDirectIO(dir); err != nil {
		return warn("kv nvme", fmt.Sprintf("%s; %v", text, err), "set a file on a local disk with --kv-nvme-path")
	}
	return pass("kv nvme", text)
}

// checkDirectIO creates a file in a folder and opens it with O_DIRECT.
func checkDirectIO(dir string) error {
	f, err := os.CreateTemp(dir, "kv-doctor-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	direct, err := os.OpenFile(f.Name(), os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		return errors.Join(
			errors.New("its file system has no O_DIRECT, so blocks pass through the page cache"), f.Close())
	}
	return errors.Join(direct.Close(), f.Close())
}
