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
// gate at each. Until that step is done nobody else is offered the blocks. A gate that fails, or takes longer than patience, makes the step void: it is
// planned anew without the sequence, which waits for what the restore brings in the end.

const (
	// partBytes is the least that is copied at once where a block comes up in parts: what disks and devices copy nearly as fast as whole blocks.
	partBytes = 256 << 10
	// patience is how long one step waits for a restore that is late, all parts together. Whoever else is in it waits as long.
	patience = 20 * time.Millisecond
)

// rising is such a restore.
type rising struct {
	gate          uint64 // its number
	id            string // of the request; "": that is gone
	begin, blocks []int32
	rise          *kvstore.LayerRestore
	ripe          bool // the sequence may begin
	begun         bool // it did; not more than once
	landed        bool // a step that read the blocks is done
}

// ripe is a note to self: a sequence may begin while its blocks are restored.
type ripe struct {
	incarnation uint64
	gate        uint64
	why         string
}

// parts is in how many parts blocks come up, from the tiers and from other nodes.
func (l *lower) parts() int { return kvstore.Parts(l.up.BlockBytes(), l.up.Layers(), l.PartBytes) }

// raises gives a restore its way up. It makes a rising of it where it is for a sequence, and there is more than one part.
func (r *replica) raises(ctx actor.Context, found *located, c *climb, begin []int32) *rising {
	l, parts := r.lower, r.lower.parts()
	if found.order != nil || parts < 2 || len(c.blocks) == 0 {
		c.rise = c.riseOf(1, func(int) {})
		return nil
	}
	l.gate++
	up := &rising{gate: l.gate, id: found.id, begin: begin, blocks: c.blocks, ripe: l.Early}
	note := &ripe{incarnation: r.incarnation, gate: l.gate}
	root, self := ctx.ActorSystem().Root, ctx.Self()
	prompt, output, _ := r.batch.Sequence(found.id)
	q := kv.OverlapEstimate{Prefill: l.prefill,
		Tokens: min(max(len(prompt)+len(output)-(len(begin)+len(c.blocks))*r.pool.BlockTokens(), 1), int(r.Spec.GetStepTokens()))}
	began, told := time.Now(), l.Early
	c.rise = c.riseOf(parts, func(came int) {
		if q.Arrived, q.Elapsed = came, time.Since(began); came == 1 {
			q.FirstAfter = q.Elapsed
		}
		if choice := q.Decide(); choice.Start && !told {
			told, note.why = true, choice.Why
			root.Send(self, note)
		}
	})
	q.Parts = c.rise.Parts()
	up.rise = c.rise
	l.rising[up.gate] = up
	return up
}

func (r *replica) onRipe(ctx actor.Context, msg *ripe) {
	if r.lower == nil || msg.incarnation != r.incarnation {
		return
	}
	if up := r.lower.rising[msg.gate]; up != nil {
		r.Log.Debug().Str("request", up.id).Str("why", msg.why).Msg("prefill may begin while blocks are restored")
		up.ripe = true
		r.advance(ctx)
	}
}

// beginRipe lets the sequences run that need not wait for the rest of their blocks any more.
func (r *replica) beginRipe() {
	for _, gate := range slices.Sorted(maps.Keys(r.lower.rising)) {
		up := r.lower.rising[gate]
		if !up.ripe || up.begun || up.id == "" || r.departures[up.id] != nil {
			continue
		}
		if up.begun = r.batch.StartRestoring(up.id, append(up.begin[:len(up.begin):len(up.begin)], up.blocks...), len(up.begin)); up.begun {
			r.gates.put(up.gate, &patient{rise: up.rise, left: patience})
		}
	}
}

// gateOf is the number of the gate that an entry has to pass; 0: none.
func (r *replica) gateOf(e batch.Entry) uint64 {
	if !e.Restoring {
		return 0
	}
	for gate, up := range r.lower.rising {
		if up.id == e.ID && up.begun && !up.landed {
			return gate
		}
	}
	panic("replica: no restore fills the blocks of " + e.ID)
}

// land takes note of the sequences whose first step is done: all their blocks are there. It comes before the step's outcome is taken.
func (r *replica) land(entries []batch.Entry) {
	for _, e := range entries {
		if p, _ := r.batch.Progress(e.ID); !e.Restoring || !p.Restoring {
			continue // the others are gone
		}
		up := r.lower.rising[r.gateOf(e)]
		up.landed = true
		delete(r.lower.looks, up.id)
		r.lower.totals.overlapped++
	}
}

// onVoid plans a step anew whose gate did not open, without the sequence.
func (r *replica) onVoid(ctx actor.Context, void *messages.StepVoid) {
	step := r.step
	e := step.entries[void.GetSequence()]
	r.Log.Warn().Str("request", e.ID).Str("why", void.GetDetail()).Msg("step void: the blocks that it waited for did not come in time")
	r.step = nil
	r.totals.tokensIn -= step.prompt
	r.lower.totals.void++
	r.batch.RestoreFailed(e.ID)
	r.betweenSteps(ctx)
	r.advance(ctx)
}

// arrived settles what a restore means for the sequence that may have begun on its blocks. It reports whether that sequence has them.
func (r *replica) arrived(up *rising, all bool) (landed bool) {
	if up == nil {
		return false
	}
	delete(r.lower.rising, up.gate)
	r.gates.drop(up.gate)
	if p, _ := r.batch.Progress(up.id); up.begun && !up.landed && p.Restoring {
		if up.landed = all; all {
			r.batch.RestoreDone(up.id)
			delete(r.lower.looks, up.id)
		} else {
			r.batch.RestoreFailed(up.id)
		}
	}
	return up.landed
}

func (r *replica) onRestored(ctx actor.Context, msg *restored) {
	if r.lower != nil && msg.incarnation == r.incarnation {
		r.lower.ended = append(r.lower.ended, msg)
		r.advance(ctx)
	}
}

// settleRestores takes note between two steps of how restores ended.
func (r *replica) settleRestores(ctx actor.Context) {
	if r.lower == nil {
		return
	}
	all := r.lower.ended
	r.lower.ended = nil
	for _, msg := range all {
		r.settleRestore(ctx, msg)
	}
}

func (r *replica) settleRestore(ctx actor.Context, msg *restored) {
	l := r.lower
	if msg.err != nil {
		r.Log.Warn().Err(msg.err).Str("request", msg.id).Msg("not all blocks were restored")
	}
	landed := r.arrived(msg.rising, msg.climbed.blocks == len(msg.blocks))
	for i, b := range msg.blocks[:msg.climbed.blocks] {
		if !landed { // else the sequence has offered those that are full, and may be writing to the last
			r.pool.Commit(b, msg.hashes[i])
		}
		if msg.places[i].tier < len(l.Lower) {
			r.pool.MarkBacked(b, msg.hashes[i])
			l.totals.restored++
		}
	}
	l.fetched(msg.climbed.fetches)
	l.totals.recomputed += uint64(len(msg.blocks) - msg.climbed.blocks)
	r.pool.Release(append(msg.begin, msg.blocks...))
	for i, rate := range msg.climbed.rates {
		l.paths[i].Merge(rate)
	}
	msg.order.answer(ctx, r, msg.climbed.blocks, "")
	r.changed(ctx)
	if !landed {
		r.goOn(msg.id)
	}
	if msg.order == nil {
		r.seekOn(msg.hashes[0])
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

// patient is a gate that is waited for only so long.
type patient struct {
	rise *kvstore.LayerRestore
	left time.Duration
}

// Pass implements engine.Gate.
func (p *patient) Pass(ctx context.Context, layer int) (cuda.Event, int, error) {
	began := time.Now()
	waiting, end := context.WithTimeout(ctx, p.left)
	defer end()
	ready, next, err := p.rise.Pass(waiting, layer)
	p.left -= time.Since(began)
	return ready, next, err
}
