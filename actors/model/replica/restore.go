package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/kv"
)

// restore decides between restoring and recomputing, and has blocks restored to free ones.
func (r *replica) restore(ctx actor.Context, found *located) {
	l := r.lower
	choice := r.choose(found)
	if choice.Blocks == 0 {
		found.claim()
		found.search.unlock(nil)
		if len(found.places) > 0 {
			l.totals.avoided++
			l.totals.recomputed += uint64(len(found.places))
			l.doubt(found.places)
		}
		found.order.answer(ctx, r, 0, choice.Why)
		r.goOn(found.id)
		if found.order == nil {
			r.seekOn(found.hashes[found.have])
		}
		return
	}
	if found.order == nil {
		l.totals.restores++
	}
	begin := r.pool.Acquire(found.hashes[:found.have]) // so that it is not evicted for what follows it
	c := climb{search: found.search, to: l.up, bulk: r.Bulk, findings: found.findings, within: max(choice.Recompute, restoreLeast), copied: l.Copied}
	for len(begin) == found.have && len(c.blocks) < choice.Blocks {
		b, ok := r.pool.Allocate()
		if !ok {
			break
		}
		c.blocks = append(c.blocks, b)
	}
	r.announce(ctx) // before what was evicted for them is overwritten
	r.Log.Debug().Str("request", found.id).Str("why", choice.Why).Msg("blocks are restored")
	note := &restored{incarnation: r.incarnation, id: found.id, order: found.order, begin: begin, blocks: c.blocks, hashes: found.hashes[found.have:], places: found.places}
	note.rising = r.raises(ctx, found, &c, begin)
	supervise.Job(ctx, r.life, c.run, func(climbed climbed, err error) any {
		note.climbed, note.err = climbed, err
		return note
	})
}

// doubt is about the ways up that were too slow.
func (l *lower) doubt(avoided []place) {
	tiers := make(map[int]bool)
	for _, p := range avoided {
		if p.tier < len(l.paths) && !tiers[p.tier] {
			tiers[p.tier] = true
			l.paths[p.tier].Decay()
		}
	}
}

// choose decides for a sequence that waits; for one that does not any more, against it. What was ordered is done.
func (r *replica) choose(found *located) kv.RestoreDecision {
	l := r.lower
	all := kv.RestoreDecision{Blocks: len(found.places), Recompute: tierWithin, Why: "all that lies below is to be restored"}
	if found.order != nil {
		if all.Blocks == 0 {
			all.Why = "no tier below has the next block"
		}
		return all
	}
	if state, known := r.batch.State(found.id); !known || state == batch.Running {
		return kv.RestoreDecision{Why: "it does not wait"}
	}
	if l.Always {
		return all
	}
	prompt, output, _ := r.batch.Sequence(found.id)
	q := kv.RestoreCost{BlockBytes: int64(l.up.BlockBytes()), BlockTokens: r.pool.BlockTokens(), Prefill: l.prefill, StepTokens: int(r.Spec.GetStepTokens()),
		Tokens: len(prompt) + len(output) - found.have*r.pool.BlockTokens()}
	for i, t := range l.Lower {
		q.Paths = append(q.Paths, kv.Path{Name: t.Name, Rate: l.paths[i], Parts: l.parts()})
	}
	for _, h := range found.holders {
		h.path.Parts = l.parts()
		q.Paths = append(q.Paths, h.path)
	}
	for _, p := range found.places {
		q.Sources = append(q.Sources, p.tier)
	}
	return q.Decide()
}
