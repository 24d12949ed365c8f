package troupe

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kvblock"
	"troupe/actors/model/replica"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/tier"
	"troupe/messages"
)

// TiersConfig says how much room there is for KV blocks below the devices' memory. The zero value has none.
type TiersConfig struct {
	SlotBytes int     // size of the largest KV block
	DRAMBytes int64   // of page-locked host memory
	NVMeBytes int64   // of a file on a local disk; it keeps its blocks over restarts
	NVMePath  string  // of that file
	Watermark float64 // share of a tier above which blocks leave it ahead of need; default 0.9
	// RestoreAlways restores blocks also where recomputing them would be faster. For tests and measurements.
	RestoreAlways bool
	// LocalOnly neither fetches blocks from other replicas and nodes nor lends them any.
	LocalOnly bool
}

const (
	tiersID = nodeID + "/tiers"
	// dramIdle is after how many steps a block that nobody wanted goes from DRAM to NVMe.
	dramIdle = 1000
)

// lowerTier is an open tier below HBM.
type lowerTier struct {
	name  string
	store tier.Store
}

// openTiers opens the tiers that are configured, the fastest first.
func (n *Node) openTiers(context.Context) error {
	cfg := n.cfg.Tiers
	if cfg.DRAMBytes > 0 {
		memory, err := n.devices[0].AllocHost(cfg.DRAMBytes)
		if err != nil {
			return fmt.Errorf("tier dram: %w; make it smaller", err)
		}
		n.addTier("dram", tier.NewArena(memory, cfg.SlotBytes))
	}
	if cfg.NVMeBytes > 0 {
		f, err := tier.OpenFile(tier.FileConfig{Path: cfg.NVMePath, SlotBytes: cfg.SlotBytes, Slots: int(cfg.NVMeBytes) / cfg.SlotBytes})
		if err != nil {
			return err
		}
		n.cfg.Log.Info().Str("file", cfg.NVMePath).Bool("direct", f.Direct()).Msg("tier nvme opened")
		n.addTier("nvme", f)
	}
	return nil
}

func (n *Node) addTier(name string, store tier.Store) {
	n.tiers = append(n.tiers, lowerTier{name, store})
	n.undo = append(n.undo, func() { _ = store.Close() })
}

func (n *Node) tiersProps() *actor.Props {
	var children []supervise.Child
	for i, t := range n.tiers {
		cfg := kvblock.TierConfig{Name: t.name, Store: t.store, Limits: kv.TierLimits{Watermark: n.cfg.Tiers.Watermark}, Log: n.cfg.Log}
		if !n.cfg.Tiers.LocalOnly {
			cfg.Router, cfg.Bulk = n.pid(routerID), n.bulk
		}
		if i+1 < len(n.tiers) {
			below := n.tiers[i+1]
			cfg.Limits.IdleSteps, cfg.Below = dramIdle, &kvblock.Lower{Tier: n.pid(tiersID + "/" + below.name), Store: below.store}
		}
		children = append(children, supervise.Child{Name: t.name, Props: n.as("tier", kvblock.TierProps(cfg))})
	}
	return supervise.Group(supervise.GroupConfig{Children: children, Strategy: n.strategy(), Log: n.cfg.Log})
}

// lower is what a replica is told of the tiers.
func (n *Node) lower(spec *messages.ReplicaSpec) replica.Tiers {
	_, seen := files(spec.GetPath()) // before they are loaded
	t := replica.Tiers{Watermark: n.cfg.Tiers.Watermark, Always: n.cfg.Tiers.RestoreAlways,
		Space: func(ctx context.Context) (string, error) { return n.weights.digest(ctx, spec.GetPath(), seen) }}
	if !n.cfg.Tiers.LocalOnly {
		t.Remote = func() bool { return len(n.holders) > 1 || len(n.members.Live()) > 1 }
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
