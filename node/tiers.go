package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kvblock"
	"troupe/actors/model/replica"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/core/units"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// TiersConfig says how much room there is for KV blocks below the devices' memory. The zero value has none.
type TiersConfig struct {
	DRAMBytes int64   // of page-locked host memory
	NVMeBytes int64   // of a file on a local disk; it keeps its blocks over restarts
	NVMePath  string  // of that file
	Watermark float64 // share of HBM, and of a tier, above which blocks leave it ahead of need; default kv.DefaultWatermark
	Policy    string  // which block leaves a tier first: one of kv.PolicyNames; default kv.DefaultPolicy
	// DRAMOptional goes without that tier, with a warning, where the memory can not be had.
	DRAMOptional bool
	// Restore decides between restoring blocks and recomputing them; default kv.RestoreAuto.
	Restore kv.RestorePolicy
	// PartBytes is the minimum size of a part of a block that is restored at once, so that prefill
	// can start before the rest; default 256 KiB.
	PartBytes int
	// RemoteBytes of blocks may be on their way from other nodes at once; default kvblock.DefaultRemoteBytes.
	RemoteBytes int64
	// LocalOnly neither fetches blocks from other replicas and nodes nor lends them any.
	LocalOnly bool
}

const (
	tiersID = nodeID + "/tiers"
	// hbmIdle and nvmeIdle are after how many steps a block that nobody wanted is copied to the tier below HBM, and goes from DRAM to NVMe.
	hbmIdle  = 100
	nvmeIdle = 1000
)

// lowerTier is an open tier below HBM.
type lowerTier struct {
	name   string
	store  kvstore.Store
	detail string // what it is made of, for people
}

// openTiers opens the tiers that are configured, the fastest first.
func (n *Node) openTiers(context.Context) error {
	if err := n.openDRAM(); err != nil {
		return err
	}
	return n.openNVMe()
}

func (n *Node) openDRAM() error {
	cfg := n.cfg.Tiers
	if cfg.DRAMBytes == 0 {
		return nil
	}
	cut := kv.CutSlabs(cfg.DRAMBytes)
	if cut.Count == 0 {
		return fmt.Errorf("tier dram: %s", tooSmall(cfg.DRAMBytes, "--kv-dram"))
	}
	memory, err := n.devices[0].AllocHost(cfg.DRAMBytes)
	switch {
	case err == nil:
		n.addTier("dram", kvstore.NewArena(memory, cut.Bytes), "host memory")
	case cfg.DRAMOptional:
		n.cfg.Log.Warn().Err(err).Int64("bytes", cfg.DRAMBytes).Msg("no host memory for KV blocks; give a size with --kv-dram")
	default:
		return fmt.Errorf("tier dram: %w; give it less than %s with --kv-dram", err, units.FormatBytes(cfg.DRAMBytes))
	}
	return nil
}

func (n *Node) openNVMe() error {
	cfg := n.cfg.Tiers
	if cfg.NVMeBytes == 0 {
		return nil
	}
	cut := kv.CutSlabs(cfg.NVMeBytes)
	if cut.Bytes <= 2*kv.SlotUnit { // the names of a slab and of a block
		return fmt.Errorf("tier nvme: %s", tooSmall(cfg.NVMeBytes, "--kv-nvme"))
	}
	f, err := kvstore.OpenFile(kvstore.FileConfig{Path: cfg.NVMePath, Slabs: cut, AllocHost: n.devices[0].AllocHost})
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; make a folder that this user may write to, or name another file with --kv-nvme-path", err)
	}
	if err != nil {
		return fmt.Errorf("tier nvme: %w", err)
	}
	detail := cfg.NVMePath + ", past the page cache"
	if !f.Direct() {
		detail = cfg.NVMePath + ", through the page cache: its file system has no O_DIRECT"
	}
	if f.Emptied() {
		n.cfg.Log.Warn().Str("tier", "nvme").Str("path", cfg.NVMePath).Msg("its blocks are gone: they were written by an earlier version, in a file of another size, or its name was damaged")
	}
	if f.UnreadSectors() > 0 {
		n.cfg.Log.Warn().Str("tier", "nvme").Str("path", cfg.NVMePath).Int("sectors", f.UnreadSectors()).Msg("the disk can not read all of it, and blocks are lost; look at the disk, or name a file on another one with --kv-nvme-path")
	}
	n.addTier("nvme", f, detail)
	return nil
}

// tooSmall says that no block would fit.
func tooSmall(bytes int64, option string) string {
	return fmt.Sprintf("no KV block fits into %s; give more with %s", units.FormatBytes(bytes), option)
}

func (n *Node) addTier(name string, store kvstore.Store, detail string) {
	n.cfg.Log.Info().Str("tier", name).Int("slabs", store.Slabs().Count).Int("slab_bytes", store.Slabs().Bytes).Str("detail", detail).Msg("tier opened")
	n.tiers = append(n.tiers, lowerTier{name, store, detail})
	n.undo = append(n.undo, func() { _ = store.Close() })
}

func (n *Node) tiersProps() *actor.Props {
	var children []supervise.Child
	for i, t := range n.tiers {
		cfg := kvblock.TierConfig{Name: t.name, Store: t.store, OnDemoted: n.copies.copied, Policy: n.cfg.Tiers.Policy,
			Limits: kv.TierLimits{Watermark: n.cfg.Tiers.Watermark}, Log: n.cfg.Log}
		if !n.cfg.Tiers.LocalOnly {
			cfg.Router, cfg.DataPlane = n.pid(routerID), n.bulk
		}
		if i+1 < len(n.tiers) {
			below := n.tiers[i+1]
			cfg.Limits.IdleSteps, cfg.Below = nvmeIdle-hbmIdle, &kvblock.Lower{Name: below.name, Tier: n.pid(tiersID + "/" + below.name), Store: below.store}
		}
		children = append(children, supervise.Child{Name: t.name, Props: n.as("tier", kvblock.TierProps(cfg))})
	}
	if !n.cfg.Tiers.LocalOnly {
		children = append(children, supervise.Child{Name: kvblock.RemoteName, Props: n.as("tier", n.remoteProps())})
	}
	return supervise.Group(supervise.GroupConfig{Children: children, Strategy: n.strategy(), Log: n.cfg.Log})
}

// lower is what a replica is told of the tiers.
func (n *Node) lower() replica.Tiers {
	t := replica.Tiers{Watermark: n.cfg.Tiers.Watermark, IdleSteps: hbmIdle, OnCopied: n.copies.copied, Restore: n.cfg.Tiers.Restore,
		PartBytes: n.cfg.Tiers.PartBytes}
	if !n.cfg.Tiers.LocalOnly {
		t.Remote, t.RemoteAvailable = n.pid(remoteID), func() bool { return len(n.holders) > 1 || len(n.members.Live()) > 1 }
	}
	for i, l := range n.tiers {
		t.Lower = append(t.Lower, replica.Tier{Name: l.name, Actor: n.tierPIDs()[i], Store: l.store})
	}
	return t
}

func (n *Node) tierPIDs() []*actor.PID {
	pids := make([]*actor.PID, len(n.tiers))
	for i, t := range n.tiers {
		pids[i] = n.pid(tiersID + "/" + t.name)
	}
	return pids
}

// TierDetails say what the tiers below HBM are made of, and how large they are, for people.
func (n *Node) TierDetails() (all []string) {
	for _, t := range n.tiers {
		all = append(all, fmt.Sprintf("%s of %s", units.FormatBytes(t.store.Slabs().Capacity()), t.detail))
	}
	return all
}

// Tiers asks the tiers below HBM how full they are.
func (n *Node) Tiers(context.Context) ([]*messages.SlotsStatus, error) {
	var all []*messages.SlotsStatus
	for _, t := range n.tiers {
		answer, err := n.system.Root.RequestFuture(n.pid(tiersID+"/"+t.name), &messages.GetSlots{RequestId: t.name}, 5*time.Second).Result()
		if err != nil {
			return nil, fmt.Errorf("tier %s: %w", t.name, err)
		}
		all = append(all, answer.(*messages.SlotsStatus))
	}
	return all, nil
}
