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

// A restore whose blocks come up part by part is a rising: its sequence begins before the last part is there, and the step that computes it passes a
// gate at each. Until that step is done nobody else is offered the blocks. A gate that fails, or takes longer than gateTimeout, makes the step void: it is
// planned anew without the sequence, which waits for what the restore brings in the end.

const (
	// defaultPartBytes is the least that is copied at once where a block comes up in parts: what disks and devices copy nearly as fast as whole blocks.
	defaultPartBytes = 256 << 10
	// gateTimeout is how long one step waits for a restore that is late, all parts together. Whoever else is in it waits as long.
	gateTimeout = 20 * time.Millisecond
)

// rising is such a restore.
type overlap struct {
	gate          uint64 // its number
	id            string // of the request; "": that is gone
	begin, blocks []int32
	restore       *kvstore.LayerRestore
	ready         bool // the sequence may begin
	started       bool // it did; not more than once
	stepDone      bool // a step that read the blocks is done
}

// ripe is a note to self: a sequence may begin while its blocks are restoreDone.
type overlapReady struct {
	incarnation uint64
	gate        uint64
	why         string
}

// parts is in how many parts blocks come up, from the tiers and from other nodes.
func (l *kvTiers) parts() int { return kvstore.Parts(l.up.BlockBytes(), l.up.Layers(), l.PartBytes) }

// raises gives a restore its way up. It makes a rising of it where it is for a sequence, and there is more than one part.
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

// startReady lets the sequences run that need not wait for the rest of their blocks any more.
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

// gateOf is the number of the gate that an entry has to pass; 0: none.
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

// land takes note of the sequences whose first step is done: all their blocks are there. It comes before the step's outcome is taken.
func (r *replica) finishOverlapped(entries []batch.Entry) {
	for _, e := range entries {
		if p, _ := r.batch.Progress(e.ID); !e.Restoring || !p.Restoring {
			continue // the others are gone
		}
		up := r.kvTiers.overlaps[r.gateOf(e)]
		up.stepDone = true
		delete(r.kvTiers.held, up.id)
		r.kvTiers.totals.overlapped++
	}
}

// onStepAborted plans a step anew whose gate did not open, without the sequence.
func (r *replica) onStepAborted(ctx actor.Context, void *messages.StepVoid) {
	step := r.step
	e := step.entries[void.GetSequence()]
	r.Log.Warn().Str("request", e.ID).Str("why", void.GetDetail()).
		Msg("step void: the blocks that it waited for did not come in time")
	r.step = nil
	r.totals.tokensIn -= step.prompt
	r.kvTiers.totals.aborted++
	r.batch.RestoreFailed(e.ID)
	r.betweenSteps(ctx)
	r.advance(ctx)
}

// endOverlap settles what a restore means for the sequence that may have begun on its blocks. It reports whether that sequence has them.
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

// applyRestores takes note between two steps of how restores ended.
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
		if !landed { // else the sequence has offered those that are full, and may be writing to the last
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

// gates are what the engine's steps pass, by number. They are safe for concurrent use.
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

// find is for the engine; see EngineConfig.Gate.
func (g *gates) find(number uint64) (engine.Gate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := g.all[number]
	if gate == nil {
		return nil, fmt.Errorf("restore %d has ended", number)
	}
	return gate, nil
}

// timedGate is a gate that is waited for only so long.
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
