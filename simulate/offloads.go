package simulate

import (
	"fmt"
	"time"

	"troupe/core/kv"
	"troupe/core/offload"
	core "troupe/core/replica"
)

// performOffload carries out the effects of core/offload, in order.
func (t *tiering) performOffload(effects []offload.Effect) {
	m, s := t.replica.machine, t.replica.sim
	for _, effect := range effects {
		switch e := effect.(type) {
		case offload.Select:
			var blocks []kv.Committed
			if e.Idle {
				blocks = m.Pool().SelectIdle(e.IdleSteps, e.Burst)
			} else {
				blocks = m.Pool().SelectOffload(e.Watermark, e.Burst)
			}
			t.performOffload(t.offloads.Selected(blocks, s.key.at))
		case offload.Copy:
			t.copyDown(e)
		case offload.Finish:
			for _, b := range e.Blocks {
				m.Pool().OffloadDone(b.Block, b.Stored)
			}
		case offload.RetryAfter:
			t.after(e.After, func() { t.performOffload(t.offloads.Retry()) })
		case offload.ReportSteps:
			for _, below := range t.tiers {
				below.stepsDone(e.Steps)
			}
		case offload.Answer:
			t.replica.saved(e.Blocks, e.Detail)
		case offload.Refuse:
			t.replica.saved(0, e.Detail)
		case offload.Advance:
			t.replica.perform([]core.Effect{core.Advance{}}, s.key.at)
		}
	}
}

// copyDown copies blocks to the first tier: it reserves slots, copies, and commits.
func (t *tiering) copyDown(e offload.Copy) {
	below, size, hashes := t.tiers[0], t.replica.model.blockSize(), make([]kv.Hash, len(e.Blocks))
	at := make(map[kv.Hash]int, len(e.Blocks))
	for i, b := range e.Blocks {
		hashes[i] = b.Hash.Namespaced(t.space)
		at[hashes[i]] = i
	}
	t.requests++
	id := fmt.Sprintf("%s-%d", t.id, t.requests)
	below.reserve(id, hashes, int(size), func(g grant) {
		stored, written := make([]bool, len(e.Blocks)), make([]kv.Hash, len(g.slots))
		for _, h := range g.held {
			stored[at[h]] = true
		}
		for i, slot := range g.slots {
			stored[at[slot.Hash]], written[i] = true, slot.Hash
		}
		ended := func() {
			if t.closed {
				below.commit(id, nil)
				return
			}
			below.commit(id, written)
			t.replica.touch()
			t.performOffload(t.offloads.Copied(e.Number, stored, g.refuse, t.replica.sim.key.at))
		}
		if len(written) == 0 || t.closed {
			ended()
			return
		}
		t.replica.device.down.copy(int64(len(written))*size, ended)
	})
}

// saveBlocks copies all blocks to the first tier, before the replica is preempted.
func (r *replica) saveBlocks(now time.Time) {
	if t := r.tiering; t != nil {
		t.performOffload(t.offloads.Offload("preempt", offload.Actor{ID: r.id}, r.machine.Ready(), now))
		return
	}
	r.saved(0, "its node has no KV tiers")
}

func (r *replica) saved(blocks int, fault string) {
	r.post(func(now time.Time) []core.Effect { return r.machine.BlocksSaved(blocks, fault, now) })
}
