package hierarchy

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kvblock"
	"troupe/actors/model/replica"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/node/query"
	"troupe/node/tiers"
)

const (
	// hbmIdleSteps is the number of steps after which an unused block is copied from HBM to the
	// tier below. nvmeIdleSteps is the same for copies from DRAM to NVMe.
	hbmIdleSteps  = 100
	nvmeIdleSteps = 1000
)

// Tiers are the KV tiers of a node below HBM.
type Tiers struct {
	Open  *tiers.Tiers
	Plane replica.Bulk // for blocks from other nodes
	// OnCopied is called after each copy of a block from one tier to another.
	OnCopied func(from, to string, bytes int, m kvstore.Move)
	// MayBeRemote reports whether another device or node may have blocks.
	MayBeRemote func() bool
}

// Empty reports whether there are no tiers.
func (t Tiers) Empty() bool { return len(t.Open.Lower) == 0 && t.Open.LocalOnly }

// Props returns the props of the group of tiers.
func (t Tiers) Props(b *Base) *actor.Props {
	var children []supervise.Child
	for i, l := range t.Open.Lower {
		cfg := kvblock.TierConfig{
			Name:      l.Name,
			Store:     l.Store,
			OnDemoted: t.OnCopied,
			Policy:    t.Open.Policy,
			Limits:    kv.TierLimits{Watermark: t.Open.Watermark},
			Log:       b.Log,
		}
		if !t.Open.LocalOnly {
			cfg.Router, cfg.DataPlane = b.pid(query.Router), t.Plane
		}
		if i+1 < len(t.Open.Lower) {
			below := t.Open.Lower[i+1]
			cfg.Limits.IdleSteps = nvmeIdleSteps - hbmIdleSteps
			cfg.Below = &kvblock.Lower{Name: below.Name, Tier: b.pid(query.Tier(below.Name)), Store: below.Store}
		}
		children = append(children, supervise.Child{Name: l.Name, Props: b.Instrument("tier", kvblock.TierProps(cfg))})
	}
	if !t.Open.LocalOnly {
		remote := kvblock.RemoteProps(kvblock.RemoteConfig{
			Router: b.pid(query.Router), Capacity: t.Open.RemoteBytes, Log: b.Log,
		})
		children = append(children, supervise.Child{Name: kvblock.RemoteName, Props: b.Instrument("tier", remote)})
	}
	return b.group("group", children)
}

// forReplicas returns the configuration of the tiers for replicas.
func (t Tiers) forReplicas(b *Base) replica.Tiers {
	all := replica.Tiers{
		Watermark: t.Open.Watermark,
		IdleSteps: hbmIdleSteps,
		OnCopied:  t.OnCopied,
		Restore:   t.Open.Restore,
		PartBytes: t.Open.PartBytes,
	}
	if !t.Open.LocalOnly {
		all.Remote, all.RemoteAvailable = b.pid(query.Tier(kvblock.RemoteName)), t.MayBeRemote
	}
	for i, pid := range t.pids(b) {
		l := t.Open.Lower[i]
		all.Lower = append(all.Lower, replica.Tier{Name: l.Name, Actor: pid, Store: l.Store})
	}
	return all
}

// pids returns the addresses of the lower tiers.
func (t Tiers) pids(b *Base) []*actor.PID {
	pids := make([]*actor.PID, len(t.Open.Lower))
	for i, l := range t.Open.Lower {
		pids[i] = b.pid(query.Tier(l.Name))
	}
	return pids
}
