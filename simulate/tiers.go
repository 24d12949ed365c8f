package simulate

import (
	"fmt"

	"troupe/core/export"
	"troupe/core/kv"
	"troupe/core/tier"
)

// The names of the KV tiers of a node below HBM.
const (
	dramTier = "dram"
	nvmeTier = "nvme"
)

// The steps after which unused blocks leave HBM and DRAM, as of a node.
const (
	hbmIdleSteps  = 100
	nvmeIdleSteps = 1000
)

// Tiers are the KV tiers of a node below HBM. A size of 0 means that there is none.
type Tiers struct {
	DRAM, NVMe int64  // bytes
	Remote     int64  // bytes in flight from other replicas and nodes, which have a remote tier too
	Policy     string // of eviction; empty: kv.DefaultPolicy
	Watermark  float64
	Restore    kv.RestorePolicy
}

// kvTier decides what a tier of a node holds, as the actor of actors/kvblock.
type kvTier struct {
	sim     *simulation
	node    *node
	name    string
	slabs   kv.Slabs
	machine *tier.Machine
	below   *kvTier // nil: none
	write   *link   // to the tier below
	granted map[string]func(grant)
	locked  map[string]func([]tier.Slot)
	demoted uint64 // blocks
	lost    bool   // with its node
	lending

	announces bool // an announcement is planned
}

// grant is the answer to a reservation.
type grant struct {
	slots  []tier.Slot
	held   []kv.Hash
	refuse string
}

// newTiers returns the tiers of a node, the fastest first.
func (s *simulation) newTiers(n *node) (all []*kvTier) {
	for _, t := range []struct {
		name  string
		bytes int64
	}{{dramTier, n.Tiers.DRAM}, {nvmeTier, n.Tiers.NVMe}} {
		if slabs := kv.CutSlabs(t.bytes); slabs.Count > 0 {
			all = append(all, &kvTier{sim: s, node: n, name: t.name, slabs: slabs,
				granted: make(map[string]func(grant)), locked: make(map[string]func([]tier.Slot)), write: &n.write})
		}
	}
	for i, t := range all {
		cfg := tier.Config{Name: t.name, Policy: n.Tiers.policy(), Lower: i+1 < len(all), Router: n.Tiers.Remote > 0,
			Limits: kv.TierLimits{Slabs: t.slabs, Watermark: n.Tiers.Watermark},
			Export: export.Config{Name: "tier " + t.name, MaxBytes: t.slabs.Largest()}}
		if cfg.Lower {
			t.below = all[i+1]
			cfg.Limits.IdleSteps, cfg.Limits.MaxDemoteBytes = nvmeIdleSteps-hbmIdleSteps, t.below.slabs.Largest()
		}
		t.machine = tier.New(cfg)
	}
	return all
}

func (t Tiers) policy() string {
	if t.Policy == "" {
		return kv.DefaultPolicy
	}
	return t.Policy
}

// reserve requests slots for blocks. The answer may come later.
func (t *kvTier) reserve(id string, hashes []kv.Hash, bytes int, granted func(grant)) {
	t.granted[id] = granted
	t.perform(t.machine.Reserve(id, tier.Actor{ID: id}, hashes, bytes))
}

// lock requests to read blocks.
func (t *kvTier) lock(id string, hashes []kv.Hash, locked func([]tier.Slot)) {
	t.locked[id] = locked
	t.perform(t.machine.Lock(id, tier.Actor{ID: id}, hashes))
}

func (t *kvTier) unlock(id string) { t.perform(t.machine.Unlock(id, nil)) }

func (t *kvTier) commit(id string, written []kv.Hash) { t.perform(t.machine.Commit(id, written)) }

func (t *kvTier) stepsDone(steps int) { t.perform(t.machine.StepsDone(steps)) }

// perform carries out the machine's effects, in order. A tier that is lost does nothing more.
func (t *kvTier) perform(effects []tier.Effect) {
	if t.lost {
		return
	}
	for _, effect := range effects {
		switch e := effect.(type) {
		case tier.AnswerReserve:
			t.answer(e.ID, grant{slots: e.Slots, held: e.Held})
		case tier.RefuseReserve:
			t.answer(e.ID, grant{refuse: e.Detail})
		case tier.AnswerLock:
			answer := t.locked[e.ID]
			delete(t.locked, e.ID)
			t.sim.post(func() { answer(e.Slots) })
		case tier.Copy:
			t.demote(e)
		case tier.ExpireReservation:
			t.sim.after(e.After, func() { t.perform(t.machine.ReservationTimeout(e.ID)) })
		case tier.Pause:
			t.sim.after(e.After, func() { t.perform(t.machine.Retry()) })
		case tier.Export:
			t.performExport(e.Effect)
		case tier.Announce:
			t.node.announceTier(t, e.Announcement)
		}
	}
	t.announceSoon()
}

// announceSoon announces what has changed to the router after a while, as the actor does all the time.
func (t *kvTier) announceSoon() {
	if t.announces || t.node.Tiers.Remote == 0 {
		return
	}
	t.announces = true
	t.sim.after(announceEvery, func() {
		t.perform(t.machine.Announce(false))
		t.announces = false
	})
}

func (t *kvTier) answer(id string, g grant) {
	answer := t.granted[id]
	delete(t.granted, id)
	t.sim.post(func() { answer(g) })
}

// demote copies blocks of one size to the tier below.
func (t *kvTier) demote(e tier.Copy) {
	id, size, hashes := fmt.Sprintf("%s-%d", t.name, e.Number), e.Blocks[0].Size, make([]kv.Hash, len(e.Blocks))
	for i, b := range e.Blocks {
		hashes[i] = b.Hash
	}
	t.below.reserve(id, hashes, size, func(g grant) {
		ended := func() {
			there := make(map[kv.Hash]bool)
			written := make([]kv.Hash, len(g.slots))
			for _, h := range g.held {
				there[h] = true
			}
			for i, slot := range g.slots {
				there[slot.Hash], written[i] = true, slot.Hash
			}
			outcomes := make([]tier.Outcome, len(e.Blocks))
			for i, h := range hashes {
				if there[h] {
					outcomes[i] = tier.Stored
				}
			}
			t.demoted += uint64(len(written))
			t.below.commit(id, written)
			t.perform(t.machine.CopyEnded(outcomes, len(there) < len(e.Blocks)))
		}
		if len(g.slots) == 0 {
			ended()
			return
		}
		t.write.copy(int64(len(g.slots))*int64(size), ended)
	})
}

// fits reports whether the tier has slots for blocks of a size.
func (t *kvTier) fits(block int64) bool { return t.slabs.Fit(int(block)) > 0 }

// blockSize returns the bytes of a KV block of a model.
func (m *model) blockSize() int64 { return int64(m.BlockTokens) * m.KVTokenBytes }
