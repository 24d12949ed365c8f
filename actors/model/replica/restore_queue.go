package replica

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
)

// What a sequence can begin with, and HBM has not, is looked for below and hasRemote before it is admitted; it is held meanwhile. Others that need the same block next wait
// for that look, and for the restore that may come of it, and then look again: nothing is restored or fetched twice at once.

// look has the blocks of those looked for that are admitted next.
func (r *replica) lookupNext(ctx actor.Context) {
	l := r.kvTiers
	if !l.hasRemote() && len(l.Lower) == 0 {
		clear(l.pendingLookup)
	}
	for len(l.held) < maxLookups {
		id, hashes, ok := r.batch.PeekWaiting()
		if !ok || !l.pendingLookup[id] {
			return
		}
		have := r.pool.Match(hashes)
		if have == len(hashes) {
			return // it may have lost some when its turn comes
		}
		delete(l.pendingLookup, id)
		r.batch.Hold(id)
		next := hashes[have]
		if behind, sought := l.waiters[next]; sought {
			l.waiters[next] = append(behind, id)
			continue
		}
		l.held[id], l.waiters[next] = true, nil
		s := r.newLookup(ctx, hashes[have:])
		note := &lookupDone{incarnation: r.incarnation, id: id, hashes: hashes, have: have, lookup: s}
		supervise.Job(ctx, r.life, s.run, func(findings lookupResult, err error) any {
			note.lookupResult = findings
			return note
		})
	}
}

// lookupAhead starts the lookups of sequences that are admitted next while a step is in flight.
// Started after the step, a lookup would keep its sequence out of the next one too.
func (r *replica) lookupAhead(ctx actor.Context) {
	if r.step != nil && r.kvTiers != nil && r.kvTiers.ready {
		r.lookupNext(ctx)
	}
}

func (r *replica) onLookupDone(ctx actor.Context, msg *lookupDone) {
	if r.kvTiers != nil && msg.incarnation == r.incarnation {
		r.kvTiers.lookupsDone = append(r.kvTiers.lookupsDone, msg)
		r.advance(ctx)
	}
}

// unhold lets a sequence be admitted that was held until its blocks are restored.
func (r *replica) unhold(id string) {
	if id == "" {
		return // it was not for a sequence
	}
	delete(r.kvTiers.held, id)
	if r.outgoing[id] == nil { // else it is on its way to another replica
		r.batch.Resume(id)
	}
}

// wakeWaiters lets those go on that waited for what became of a block.
func (r *replica) wakeWaiters(next kv.Hash) {
	behind := r.kvTiers.waiters[next]
	delete(r.kvTiers.waiters, next)
	for _, id := range behind {
		if _, known := r.batch.State(id); known {
			r.kvTiers.pendingLookup[id] = true
			r.unhold(id)
		}
	}
}

// forget sees to it that nothing is taken for a sequence's that is gone.
func (l *kvTiers) forget(id string) {
	delete(l.pendingLookup, id)
	for next, behind := range l.waiters {
		l.waiters[next] = slices.DeleteFunc(behind, func(other string) bool { return other == id })
	}
	for _, up := range l.overlaps {
		if up.id == id {
			up.id = ""
			delete(l.held, id)
		}
	}
}
