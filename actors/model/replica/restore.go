package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/kv"
)

// restore decides whether to restore the found blocks or recompute them, and starts the restore.
func (r *replica) restore(ctx actor.Context, found *lookupDone) {
	l := r.kvTiers
	choice := r.decideRestore(found)
	if choice.Blocks == 0 {
		found.claim()
		found.lookup.unlock(nil)
		if len(found.locations) > 0 {
			l.totals.avoided++
			l.totals.recomputed += uint64(len(found.locations))
			l.decayRates(found.locations)
		}
		found.command.answer(ctx, r, 0, choice.Why)
		r.unhold(found.id)
		if found.command == nil {
			r.wakeWaiters(found.hashes[found.have])
		}
		return
	}
	if found.command == nil {
		l.totals.restores++
	}
	begin := r.pool.Acquire(found.hashes[:found.have]) // referenced, so that the restore does not evict them
	c := restoreCopy{lookup: found.lookup, to: l.up, bulk: r.Bulk, lookupResult: found.lookupResult,
		timeout: max(choice.Recompute, minRestoreTimeout), copied: l.OnCopied}
	for len(begin) == found.have && len(c.blocks) < choice.Blocks {
		b, ok := r.pool.Allocate()
		if !ok {
			break
		}
		c.blocks = append(c.blocks, b)
	}
	r.publishBlocks(ctx) // before the evicted blocks are overwritten
	r.Log.Debug().Str("request", found.id).Str("why", choice.Why).Msg("restoring blocks")
	note := &restoreDone{incarnation: r.incarnation, id: found.id, command: found.command, begin: begin,
		blocks: c.blocks, hashes: found.hashes[found.have:], locations: found.locations}
	note.overlap = r.planRestore(ctx, found, &c, begin)
	supervise.Job(ctx, r.life, c.run, func(result restoreResult, err error) any {
		note.result, note.err = result, err
		return note
	})
}

// decayRates decays the rates of the tiers that a decision avoided as too slow, so that they are
// tried again.
func (l *kvTiers) decayRates(avoided []blockLocation) {
	tiers := make(map[int]bool)
	for _, p := range avoided {
		if p.tier < len(l.pathRates) && !tiers[p.tier] {
			tiers[p.tier] = true
			l.pathRates[p.tier].Decay()
		}
	}
}

// decideRestore decides how many of the found blocks to restore: all of them for a command, and
// none for a sequence that is no longer waiting.
func (r *replica) decideRestore(found *lookupDone) kv.RestoreDecision {
	l := r.kvTiers
	all := kv.RestoreDecision{Blocks: len(found.locations), Recompute: tierTimeout,
		Why: "all blocks in lower tiers are restored"}
	if found.command != nil {
		if all.Blocks == 0 {
			all.Why = "no lower tier has the next block"
		}
		return all
	}
	if state, known := r.batch.State(found.id); !known || state == batch.Running {
		return kv.RestoreDecision{Why: "the sequence no longer waits"}
	}
	if l.Restore == kv.RestoreAlways {
		return all
	}
	prompt, output, _ := r.batch.Sequence(found.id)
	q := kv.RestoreCost{BlockBytes: int64(l.up.BlockBytes()), BlockTokens: r.pool.BlockTokens(),
		Prefill: l.prefillRate, StepTokens: int(r.Spec.GetStepTokens()),
		Tokens: len(prompt) + len(output) - found.have*r.pool.BlockTokens()}
	for i, t := range l.Lower {
		q.Paths = append(q.Paths, kv.Path{Name: t.Name, Rate: l.pathRates[i], Parts: l.parts()})
	}
	for _, h := range found.holders {
		h.path.Parts = l.parts()
		q.Paths = append(q.Paths, h.path)
	}
	for _, p := range found.locations {
		q.Sources = append(q.Sources, p.tier)
	}
	return q.Decide()
}
