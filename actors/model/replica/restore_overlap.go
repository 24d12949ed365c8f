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
	// gateTimeout is the total time that one step waits for the parts of a restore. All other
	// sequences in the step wait as long.
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

// overlapReady is a note to self: a sequence may start before its restore ends.
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
	up := &overlap{gate: l.lastGate, id: found.id, begin: begin, blocks: c.blocks, ready: l.Early}
	note := &overlapReady{incarnation: r.incarnation, gate: l.lastGate}
	root, self := ctx.ActorSystem().Root, ctx.Self()
	prompt, output, _ := r.batch.Sequence(found.id)
	q := kv.OverlapEstimate{Prefill: l.prefillRate,
		Tokens: min(max(len(prompt)+len(output)-(len(begin)+len(c.blocks))*r.pool.BlockTokens(), 1),
			int(r.Spec.GetStepTokens()))}
	began, told := time.Now(), l.Early
	c.restore = c.newLayerRestore(parts, func(came int) {
		if q.Arrived, q.Elapsed = came, time.Since(began); came == 1 {
			q.FirstAfter = q.Elapsed
		}
		if choice := q.Decide(); choice.Start && !told {
			told, note.why = true, choice.Why
			root.Send(self, note)
		}
	})
	q.Parts = c.restore.Parts()
	up.restore = c.restore
	l.overlaps[up.gate] = up
	return up
}

func (r *replica) onOverlapReady(ctx actor.Context, msg *overlapReady) {
	if r.kvTiers == nil || msg.incarnation != r.incarnation {
		return
	}
	if up := r.kvTiers.overlaps[msg.gate]; up != nil {
		r.Log.Debug().Str("request", up.id).Str("why", msg.why).Msg("prefill may begin while blocks are restored")
		up.ready = true
		r.advance(ctx)
	}
}

// startReady starts sequences whose remaining blocks will arrive before they are read.
func (r *replica) startReady() {
	for _, gate := range slices.Sorted(maps.Keys(r.kvTiers.overlaps)) {
		up := r.kvTiers.overlaps[gate]
		if !up.ready || up.started || up.id == "" || r.outgoing[up.id] != nil {
			continue
		}
		if up.started = r.batch.StartRestoring(up.id, append(up.begin[:len(up.begin):len(up.begin)], up.blocks...),
			len(up.begin)); up.started {
			r.gates.put(up.gate, &timedGate{restore: up.restore, left: gateTimeout})
		}
	}
}

// gateOf returns the number of the gate that an entry has to pass; 0: none.
func (r *replica) gateOf(e batch.Entry) uint64 {
	if !e.Restoring {
		return 0
	}
	for gate, up := range r.kvTiers.overlaps {
		if up.id == e.ID && up.started && !up.stepDone {
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
		up := r.kvTiers.overlaps[r.gateOf(e)]
		up.stepDone = true
		delete(r.kvTiers.held, up.id)
		r.kvTiers.totals.overlapped++
	}
}

// onStepAborted plans a step again after a gate failed, without the sequence of that gate.
func (r *replica) onStepAborted(ctx actor.Context, void *messages.StepVoid) {
	step := r.step
	e := step.entries[void.GetSequence()]
	r.Log.Warn().Str("request", e.ID).Str("why", void.GetDetail()).
		Msg("step aborted: its blocks were not restored in time")
	r.step = nil
	r.totals.tokensIn -= step.prompt
	r.kvTiers.totals.aborted++
	r.batch.RestoreFailed(e.ID)
	r.betweenSteps(ctx)
	r.advance(ctx)
}

// endOverlap ends the overlap of a restore that has ended. It reports whether the sequence has all
// its blocks. If all is true, every block was restored.
func (r *replica) endOverlap(up *overlap, all bool) (landed bool) {
	if up == nil {
		return false
	}
	delete(r.kvTiers.overlaps, up.gate)
	r.gates.drop(up.gate)
	if p, _ := r.batch.Progress(up.id); up.started && !up.stepDone && p.Restoring {
		if up.stepDone = all; all {
			r.batch.RestoreDone(up.id)
			delete(r.kvTiers.held, up.id)
		} else {
			r.batch.RestoreFailed(up.id)
		}
	}
	return up.stepDone
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
		r.Log.Warn().Err(msg.err).Str("request", msg.id).Msg("not all blocks were restored")
	}
	landed := r.endOverlap(msg.overlap, msg.result.blocks == len(msg.blocks))
	for i, b := range msg.blocks[:msg.result.blocks] {
		if !landed { // otherwise the sequence has committed the full blocks, and may be writing to the last one
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
	if !landed {
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
