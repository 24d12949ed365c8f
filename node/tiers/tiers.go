// Package tiers opens the KV tiers of a node below HBM. It owns their memory and their file, which
// survive the actors that use them.
package tiers

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/rs/zerolog"

	"troupe/core/kv"
	"troupe/core/units"
	"troupe/cuda"
	"troupe/engine/kvstore"
)

// Lower is an open tier below HBM.
type Lower struct {
	Name   string
	Store  kvstore.Store
	Detail string // description for people
}

// Tiers are the open tiers.
type Tiers struct {
	Config
	Lower []Lower // fastest first
	log   zerolog.Logger
}

// AllocHost allocates page-locked host memory.
type AllocHost func(bytes int64) (cuda.HostMemory, error)

// Open opens the configured tiers.
func Open(cfg Config, allocHost AllocHost, log zerolog.Logger) (*Tiers, error) {
	t := &Tiers{Config: cfg, log: log}
	if err := t.openDRAM(allocHost); err != nil {
		return nil, err
	}
	if err := t.openNVMe(allocHost); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close closes the tiers.
func (t *Tiers) Close() {
	for _, l := range slices.Backward(t.Lower) {
		_ = l.Store.Close()
	}
}

// Names returns the names of the tiers.
func (t *Tiers) Names() (all []string) {
	for _, l := range t.Lower {
		all = append(all, l.Name)
	}
	return all
}

// Details describes the tiers for people: size and medium.
func (t *Tiers) Details() (all []string) {
	for _, l := range t.Lower {
		all = append(all, fmt.Sprintf("%s of %s", units.FormatBytes(l.Store.Slabs().Capacity()), l.Detail))
	}
	return all
}

func (t *Tiers) openDRAM(allocHost AllocHost) error {
	cfg := t.Config
	if cfg.DRAMBytes == 0 {
		return nil
	}
	cut := kv.CutSlabs(cfg.DRAMBytes)
	if cut.Count == 0 {
		return fmt.Errorf("tier dram: %s", tooSmall(cfg.DRAMBytes, "--kv-dram"))
	}
	memory, err := allocHost(cfg.DRAMBytes)
	switch {
	case err == nil:
		t.add("dram", kvstore.NewArena(memory, cut.Bytes), "host memory")
	case cfg.DRAMOptional:
		t.log.Warn().
			Err(err).
			Int64("bytes", cfg.DRAMBytes).
			Msg("cannot allocate host memory for KV blocks; set a size with --kv-dram")
	default:
		return fmt.Errorf("tier dram: %w; give it less than %s with --kv-dram", err, units.FormatBytes(cfg.DRAMBytes))
	}
	return nil
}

func (t *Tiers) openNVMe(allocHost AllocHost) error {
	cfg := t.Config
	if cfg.NVMeBytes == 0 {
		return nil
	}
	cut := kv.CutSlabs(cfg.NVMeBytes)
	if cut.Bytes <= 2*kv.SlotUnit { // there must be room for the headers of a slab and of a block
		return fmt.Errorf("tier nvme: %s", tooSmall(cfg.NVMeBytes, "--kv-nvme"))
	}
	f, err := kvstore.OpenFile(kvstore.FileConfig{Path: cfg.NVMePath, Slabs: cut, AllocHost: allocHost})
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; create a folder that this user can write to, "+
			"or choose another file with --kv-nvme-path", err)
	}
	if err != nil {
		return fmt.Errorf("tier nvme: %w", err)
	}
	detail := cfg.NVMePath + ", past the page cache"
	if !f.Direct() {
		detail = cfg.NVMePath + ", through the page cache: its file system has no O_DIRECT"
	}
	if f.Emptied() {
		t.log.Warn().
			Str("tier", "nvme").
			Str("path", cfg.NVMePath).
			Msg("tier file discarded: of an earlier version, of another size, or with a damaged header")
	}
	if f.UnreadSectors() > 0 {
		t.log.Warn().
			Str("tier", "nvme").
			Str("path", cfg.NVMePath).
			Int("sectors", f.UnreadSectors()).
			Msg("unreadable sectors in the tier file lose blocks; " +
				"check the disk, or use another one with --kv-nvme-path")
	}
	t.add("nvme", f, detail)
	return nil
}

// tooSmall returns the error text for a tier that has no room for a block.
func tooSmall(bytes int64, option string) string {
	return fmt.Sprintf("no KV block fits into %s; give more with %s", units.FormatBytes(bytes), option)
}

func (t *Tiers) add(name string, store kvstore.Store, detail string) {
	t.log.Info().
		Str("tier", name).
		Int("slabs", store.Slabs().Count).
		Int("slab_bytes", store.Slabs().Bytes).
		Str("detail", detail).
		Msg("tier opened")
	t.Lower = append(t.Lower, Lower{name, store, detail})
}
