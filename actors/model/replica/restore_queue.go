package replica

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
)

// A sequence whose first blocks are not in HBM is held before its admission, while they are looked
// up in the tiers and at remote holders. Other sequences with the same next block wait for that
// lookup and its restore, and then look up again. No block is thereby restored or fetched twice at
// once.

// lookupNext starts lookups for the sequences that are admitted next.
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
			return // it stays pending: blocks may be evicted before it is admitted
		}
		delete(l.pendingLookup, id)
		r.batch.Hold(id)
		next := hashes[have]
		if waiting, found := l.waiters[next]; found {
			l.waiters[next] = append(waiting, id)
			continue
		}
		l.held[id], l.waiters[next] = true, nil
		s := r.newLookup(ctx, hashes[have:])
		note := &lookupDone{incarnation: r.incarnation, id: id, hashes: hashes, have: have, lookup: s}
		supervise.Job(ctx, r.life, s.run, func(result lookupResult, _ error) any {
			note.lookupResult = result
			return note
		})
	}
}

// lookupAhead starts lookups for the sequences that are admitted next while a step is in flight. A
// lookup started after the step would keep its sequence out of the next step too.
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

// unhold lets a held sequence be admitted.
func (r *replica) unhold(id string) {
	if id == "" {
		return // no sequence was held
	}
	delete(r.kvTiers.held, id)
	if !r.migrations.source.Migrating(id) { // otherwise it stays held for its migration
		r.batch.Resume(id)
	}
}

// wakeWaiters re-queues the sequences that waited for the same block.
func (r *replica) wakeWaiters(next kv.Hash) {
	waiting := r.kvTiers.waiters[next]
	delete(r.kvTiers.waiters, next)
	for _, id := range waiting {
		if _, known := r.batch.State(id); known {
			r.kvTiers.pendingLookup[id] = true
			r.unhold(id)
		}
	}
}

// forget removes a sequence that no longer exists.
func (l *kvTiers) forget(id string) {
	delete(l.pendingLookup, id)
	for next, waiting := range l.waiters {
		l.waiters[next] = slices.DeleteFunc(waiting, func(other string) bool { return other == id })
	}
	for _, o := range l.overlaps {
		if o.id == id {
			o.id = ""
			delete(l.held, id)
		}
	}
}
