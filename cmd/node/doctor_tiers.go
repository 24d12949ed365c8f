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

// checkTiers looks whether there is room for the KV tiers that are asked for.
func checkTiers(_ context.Context, s settings) (all []finding) {
	var cfg node.Config
	s.setTiers(&cfg)
	if want := cfg.Tiers.DRAMBytes; s.KVDRAM != "" && want > 0 {
		f := finding{"kv dram", stateOK, fmt.Sprintf("%s, of %s of memory that is free", units.FormatBytes(want), units.FormatBytes(freeMemory())), ""}
		if want > freeMemory() {
			f.State, f.Remedy = stateFix, "give it less with --kv-dram"
		}
		all = append(all, f)
	}
	if cfg.Tiers.NVMeBytes > 0 {
		all = append(all, checkDisk(cfg.Tiers.NVMePath, cfg.Tiers.NVMeBytes))
	}
	return all
}

// checkDisk looks at the disk of a tier's file, which may be there already, with the space that it takes.
func checkDisk(path string, want int64) finding {
	dir := filepath.Dir(path)
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return finding{"kv nvme", stateFix, fmt.Sprintf("%s: %v", dir, err), "make that folder, or name a file in another one with --kv-nvme-path"}
	}
	if err := kvstore.CheckPath(path); err != nil {
		return finding{"kv nvme", stateFix, fmt.Sprintf("%s: %v", path, err), "name another file with --kv-nvme-path"}
	}
	free := int64(fs.Bavail) * fs.Bsize
	var file unix.Stat_t
	if err := unix.Stat(path, &file); err == nil {
		free += file.Blocks * 512
	}
	if text := fmt.Sprintf("%s for %s, of %s that is free", units.FormatBytes(want), path, units.FormatBytes(free)); want > free {
		return finding{"kv nvme", stateFix, text, "give it less with --kv-nvme, or name a file on another disk with --kv-nvme-path"}
	} else if err := checkDirectIO(dir); err != nil {
		return finding{"kv nvme", stateWarning, fmt.Sprintf("%s; %v", text, err), "name a file on a local disk with --kv-nvme-path"}
	} else {
		return finding{"kv nvme", stateOK, text, ""}
	}
}

// checkDirectIO tries whether files in a folder can be written to, and past the page cache.
func checkDirectIO(dir string) error {
	f, err := os.CreateTemp(dir, "kv-doctor-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	direct, err := os.OpenFile(f.Name(), os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		return errors.Join(errors.New("its file system has no O_DIRECT, so that blocks go through the page cache"), f.Close())
	}
	return errors.Join(direct.Close(), f.Close())
}
