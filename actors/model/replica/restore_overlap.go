package replica

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// A restore whose blocks arrive in parts can overlap with prefill: the sequence starts before the
// last part, and its first step passes a gate at each part. Until that step is done, the blocks are
// not offered for sharing. A gate that fails, or that takes longer than gateTimeout, aborts the
// step. It is planned again without the sequence, which waits for the end of the restore.

const (
	// defaultPartBytes is the default minimum size of a part of a block: disks and devices copy
	// such parts nearly as fast as whole blocks.
	defaultPartBytes = 256 << 10
	// gateTimeout is how long one step waits for parts of restores in total. All other sequences in
	// the step wait with it.
	gateTimeout = 20 * time.Millisecond
)

// overlap is a restore that may overlap with prefill.
type overlap struct {
	gate          uint64 // number of its gate
	id            string // of the request; empty: it no longer exists
	begin, blocks []int32
	restore       *kvstore.LayerRestore
	ready         bool // the sequence may start
	started       bool // the sequence has started; at most once
	stepDone      bool // a step that read the blocks is done
}

// overlapReady is a message to self: a sequence may start before its restore ends.
type overlapReady struct {
	incarnation uint64
	gate        uint64
	why         string
}

// parts returns the number of parts in which blocks are restored, from tiers and from remote
// holders.
func (l *kvTiers) parts() int { return kvstore.Parts(l.up.BlockBytes(), l.up.Layers(), l.PartBytes) }

// planRestore creates the layer restore of a copy. It returns an overlap if the restore is for a
// sequence and has more than one part, otherwise nil.
func (r *replica) planRestore(ctx actor.Context, found *lookupDone, c *restoreCopy, begin []int32) *overlap {
	l, parts := r.kvTiers, r.kvTiers.parts()
	if found.command != nil || parts < 2 || len(c.blocks) == 0 {
		c.restore = c.newLayerRestore(1, func(int) {})
		return nil
	}
	l.lastGate++
	o := &overlap{gate: l.lastGate, id: found.id, begin: begin, blocks: c.blocks}
	note := &overlapReady{incarnation: r.incarnation, gate: l.lastGate}
	root, self := ctx.ActorSystem().Root, ctx.Self()
	prompt, output, _ := r.batch.Sequence(found.id)
	estimate := kv.OverlapEstimate{Prefill: l.prefillRate,
		Tokens: min(max(len(prompt)+len(output)-(len(begin)+len(c.blocks))*r.pool.BlockTokens(), 1),
			int(r.Spec.GetStepTokens()))}
	began, started := time.Now(), false
	c.restore = c.newLayerRestore(parts, func(arrived int) {
		if estimate.Arrived, estimate.Elapsed = arrived, time.Since(began); arrived == 1 {
			estimate.FirstAfter = estimate.Elapsed
		}
		if choice := estimate.Decide(); choice.Start && !started {
			started, note.why = true, choice.Why
			root.Send(self, note)
		}
	})
	estimate.Parts = c.restore.Parts()
	o.restore = c.restore
	l.overlaps[o.gate] = o
	return o
}

func (r *replica) onOverlapReady(ctx actor.Context, msg *overlapReady) {
	if r.kvTiers == nil || msg.incarnation != r.incarnation {
		return
	}
	if o := r.kvTiers.overlaps[msg.gate]; o != nil {
		r.Log.Debug().Str("request", o.id).Str("why", msg.why).Msg("prefill can overlap with the restore")
		o.ready = true
		r.advance(ctx)
	}
}

// startReady starts sequences whose remaining blocks will arrive before they are read.
func (r *replica) startReady() {
	for _, gate := range slices.Sorted(maps.Keys(r.kvTiers.overlaps)) {
		o := r.kvTiers.overlaps[gate]
		if !o.ready || o.started || o.id == "" || r.migrations.source.Migrating(o.id) {
			continue
		}
		if o.started = r.batch.StartRestoring(o.id, append(o.begin[:len(o.begin):len(o.begin)], o.blocks...),
			len(o.begin)); o.started {
			r.gates.put(o.gate, &timedGate{restore: o.restore, left: gateTimeout})
		}
	}
}

// gateOf returns the number of the gate that an entry has to pass; 0: none.
func (r *replica) gateOf(e batch.Entry) uint64 {
	if !e.Restoring {
		return 0
	}
	for gate, o := range r.kvTiers.overlaps {
		if o.id == e.ID && o.started && !o.stepDone {
			return gate
		}
	}
	panic("replica: no restore fills the blocks of " + e.ID)
}

// finishOverlapped records the sequences whose first step is done, so that all their blocks have
// arrived. Call it before the outcome of the step is applied.
func (r *replica) finishOverlapped(entries []batch.Entry) {
	for _, e := range entries {
		if p, _ := r.batch.Progress(e.ID); !e.Restoring || !p.Restoring {
			continue // dropped, or not restoring
		}
		o := r.kvTiers.overlaps[r.gateOf(e)]
		o.stepDone = true
		delete(r.kvTiers.held, o.id)
		r.kvTiers.totals.overlapped++
	}
}

// onStepAborted plans a step again after a gate failed, without the sequence of that gate.
func (r *replica) onStepAborted(ctx actor.Context, aborted *messages.StepAborted) {
	step := r.step
	e := step.entries[aborted.GetSequence()]
	r.Log.Warn().Str("request", e.ID).Str("why", aborted.GetDetail()).
		Msg("step aborted: its blocks were not restored in time")
	r.step = nil
	r.totals.tokensIn -= step.prompt
	r.kvTiers.totals.aborted++
	r.batch.RestoreFailed(e.ID)
	r.betweenSteps(ctx)
	r.advance(ctx)
}

// endOverlap handles the end of a restore that may have overlapped with prefill. all reports
// whether all of its blocks were restored. endOverlap reports whether the sequence has all its
// blocks.
func (r *replica) endOverlap(o *overlap, all bool) (complete bool) {
	if o == nil {
		return false
	}
	delete(r.kvTiers.overlaps, o.gate)
	r.gates.drop(o.gate)
	if p, _ := r.batch.Progress(o.id); o.started && !o.stepDone && p.Restoring {
		if o.stepDone = all; all {
			r.batch.RestoreDone(o.id)
			delete(r.kvTiers.held, o.id)
		} else {
			r.batch.RestoreFailed(o.id)
		}
	}
	return o.stepDone
}

func (r *replica) onRestoreDone(ctx actor.Context, msg *restoreDone) {
	if r.kvTiers != nil && msg.incarnation == r.incarnation {
		r.kvTiers.restoresDone = append(r.kvTiers.restoresDone, msg)
		r.advance(ctx)
	}
}

// applyRestores applies the results of ended restores, between two steps.
func (r *replica) applyRestores(ctx actor.Context) {
	if r.kvTiers == nil {
		return
	}
	all := r.kvTiers.restoresDone
	r.kvTiers.restoresDone = nil
	for _, msg := range all {
		r.applyRestore(ctx, msg)
	}
}

func (r *replica) applyRestore(ctx actor.Context, msg *restoreDone) {
	l := r.kvTiers
	if msg.err != nil {
		r.Log.Warn().Err(msg.err).Str("request", msg.id).Msg("restore incomplete")
	}
	complete := r.endOverlap(msg.overlap, msg.result.blocks == len(msg.blocks))
	for i, b := range msg.blocks[:msg.result.blocks] {
		if !complete { // otherwise the sequence has committed the full blocks, and may be writing to the last one
			r.pool.Commit(b, msg.hashes[i])
		}
		if msg.locations[i].tier < len(l.Lower) {
			r.pool.MarkBacked(b, msg.hashes[i])
			l.totals.restored++
		}
	}
	l.countFetches(msg.result.fetches)
	l.totals.recomputed += uint64(len(msg.blocks) - msg.result.blocks)
	r.pool.Release(append(msg.begin, msg.blocks...))
	for i, rate := range msg.result.rates {
		l.pathRates[i].Merge(rate)
	}
	msg.command.answer(ctx, r, msg.result.blocks, "")
	r.scheduleReport(ctx)
	if !complete {
		r.unhold(msg.id)
	}
	if msg.command == nil {
		r.wakeWaiters(msg.hashes[0])
	}
}

// gates holds the gates that engine steps pass, by number. It is safe for concurrent use.
type gates struct {
	mu  sync.Mutex
	all map[uint64]engine.Gate
}

func (g *gates) put(number uint64, gate engine.Gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all[number] = gate
}

func (g *gates) drop(number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, number)
}

// find implements EngineConfig.Gate.
func (g *gates) find(number uint64) (engine.Gate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := g.all[number]
	if gate == nil {
		return nil, fmt.Errorf("restore %d has ended", number)
	}
	return gate, nil
}

// timedGate is a gate with a timeout over all its passes.
type timedGate struct {
	restore *kvstore.LayerRestore
	left    time.Duration
}

// Pass implements engine.Gate.
func (p *timedGate) Pass(ctx context.Context, layer int) (cuda.Event, int, error) {
	began := time.Now()
	waiting, end := context.WithTimeout(ctx, p.left)
	defer end()
	ready, next, err := p.restore.Pass(waiting, layer)
	p.left -= time.Since(began)
	return ready, next, err
}
