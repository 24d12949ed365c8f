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

// TiersConfig configures the KV tiers below HBM. The zero value has none.
type TiersConfig struct {
	DRAMBytes int64  // size in page-locked host memory
	NVMeBytes int64  // size of the file at NVMePath; its blocks survive restarts
	NVMePath  string // on a local disk
	// Watermark is the share of HBM, and of each tier, above which blocks are demoted ahead of
	// need; default kv.DefaultWatermark.
	Watermark float64
	Policy    string // eviction policy of the tiers, one of kv.PolicyNames; default kv.DefaultPolicy
	// DRAMOptional starts the node without the DRAM tier, with a warning, if the memory cannot be
	// allocated.
	DRAMOptional bool
	// Restore decides between restoring blocks and recomputing them; default kv.RestoreAuto.
	Restore kv.RestorePolicy
	// PartBytes is the minimum size of the parts in which a block is restored. Prefill can start
	// once the first parts have arrived. Default 256 KiB.
	PartBytes int
	// RemoteBytes limits the bytes of blocks in flight from other nodes; default
	// kvblock.DefaultRemoteBytes.
	RemoteBytes int64
	// LocalOnly disables the exchange of blocks with other replicas and nodes.
	LocalOnly bool
}

const (
	tiersID = nodeID + "/tiers"
	// hbmIdleSteps is the number of steps after which an unused block is copied from HBM to the
	// tier below. nvmeIdleSteps is the same for copies from DRAM to NVMe.
	hbmIdleSteps  = 100
	nvmeIdleSteps = 1000
)

// lowerTier is an open tier below HBM.
type lowerTier struct {
	name   string
	store  kvstore.Store
	detail string // description for people
}

// openTiers opens the configured tiers, fastest first.
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
		n.cfg.Log.Warn().
			Err(err).
			Int64("bytes", cfg.DRAMBytes).
			Msg("cannot allocate host memory for KV blocks; set a size with --kv-dram")
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
	if cut.Bytes <= 2*kv.SlotUnit { // room for the headers of a slab and of a block
		return fmt.Errorf("tier nvme: %s", tooSmall(cfg.NVMeBytes, "--kv-nvme"))
	}
	f, err := kvstore.OpenFile(kvstore.FileConfig{Path: cfg.NVMePath, Slabs: cut, AllocHost: n.devices[0].AllocHost})
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
		n.cfg.Log.Warn().
			Str("tier", "nvme").
			Str("path", cfg.NVMePath).
			Msg("tier file discarded: of an earlier version, of another size, or with a damaged header")
	}
	if f.UnreadSectors() > 0 {
		n.cfg.Log.Warn().
			Str("tier", "nvme").
			Str("path", cfg.NVMePath).
			Int("sectors", f.UnreadSectors()).
			Msg("unreadable sectors in the tier file lose blocks; " +
				"check the disk, or use another one with --kv-nvme-path")
	}
	n.addTier("nvme", f, detail)
	return nil
}

// tooSmall returns the error text for a tier that has no room for a block.
func tooSmall(bytes int64, option string) string {
	return fmt.Sprintf("no KV block fits into %s; give more with %s", units.FormatBytes(bytes), option)
}

func (n *Node) addTier(name string, store kvstore.Store, detail string) {
	n.cfg.Log.Info().
		Str("tier", name).
		Int("slabs", store.Slabs().Count).
		Int("slab_bytes", store.Slabs().Bytes).
		Str("detail", detail).
		Msg("tier opened")
	n.tiers = append(n.tiers, lowerTier{name, store, detail})
	n.closers = append(n.closers, func() { _ = store.Close() })
}

func (n *Node) tiersProps() *actor.Props {
	var children []supervise.Child
	for i, t := range n.tiers {
		cfg := kvblock.TierConfig{
			Name:      t.name,
			Store:     t.store,
			OnDemoted: n.copyMetrics.observe,
			Policy:    n.cfg.Tiers.Policy,
			Limits:    kv.TierLimits{Watermark: n.cfg.Tiers.Watermark},
			Log:       n.cfg.Log,
		}
		if !n.cfg.Tiers.LocalOnly {
			cfg.Router, cfg.DataPlane = n.pid(routerID), n.bulk
		}
		if i+1 < len(n.tiers) {
			below := n.tiers[i+1]
			cfg.Limits.IdleSteps = nvmeIdleSteps - hbmIdleSteps
			cfg.Below = &kvblock.Lower{
				Name: below.name, Tier: n.pid(tiersID + "/" + below.name), Store: below.store,
			}
		}
		children = append(children, supervise.Child{Name: t.name, Props: n.instrument("tier", kvblock.TierProps(cfg))})
	}
	if !n.cfg.Tiers.LocalOnly {
		children = append(children,
			supervise.Child{Name: kvblock.RemoteName, Props: n.instrument("tier", n.remoteProps())})
	}
	return supervise.Group(supervise.GroupConfig{Children: children, Strategy: n.strategy(), Log: n.cfg.Log})
}

// kvTiers returns the tiers as replicas see them.
func (n *Node) kvTiers() replica.Tiers {
	t := replica.Tiers{
		Watermark: n.cfg.Tiers.Watermark,
		IdleSteps: hbmIdleSteps,
		OnCopied:  n.copyMetrics.observe,
		Restore:   n.cfg.Tiers.Restore,
		PartBytes: n.cfg.Tiers.PartBytes,
	}
	if !n.cfg.Tiers.LocalOnly {
		t.Remote = n.pid(remoteID)
		t.RemoteAvailable = func() bool { return len(n.residency) > 1 || len(n.members.Live()) > 1 }
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

// TierDetails describes the tiers below HBM for people: size and medium.
func (n *Node) TierDetails() (all []string) {
	for _, t := range n.tiers {
		all = append(all, fmt.Sprintf("%s of %s", units.FormatBytes(t.store.Slabs().Capacity()), t.detail))
	}
	return all
}

// Tiers returns the usage of the tiers below HBM.
func (n *Node) Tiers(context.Context) ([]*messages.SlotsStatus, error) {
	var all []*messages.SlotsStatus
	for _, t := range n.tiers {
		tier, query := n.pid(tiersID+"/"+t.name), &messages.GetSlots{RequestId: t.name}
		answer, err := n.system.Root.RequestFuture(tier, query, 5*time.Second).Result()
		if err != nil {
			return nil, fmt.Errorf("tier %s: %w", t.name, err)
		}
		all = append(all, answer.(*messages.SlotsStatus))
	}
	return all, nil
}
