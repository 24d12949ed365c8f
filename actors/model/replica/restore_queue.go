package replica

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
)

// What a sequence can begin with, and HBM has not, is looked for below and elsewhere before it is admitted; it is held meanwhile. Others that need the same block next wait
// for that look, and for the restore that may come of it, and then look again: nothing is restored or fetched twice at once.

// look has the blocks of those looked for that are admitted next.
func (r *replica) look(ctx actor.Context) {
	l := r.lower
	if !l.elsewhere() && len(l.Lower) == 0 {
		clear(l.wanting)
	}
	for len(l.looks) < maxLooks {
		id, hashes, ok := r.batch.PeekWaiting()
		if !ok || !l.wanting[id] {
			return
		}
		have := r.pool.Match(hashes)
		if have == len(hashes) {
			return // it may have lost some when its turn comes
		}
		delete(l.wanting, id)
		r.batch.Hold(id)
		next := hashes[have]
		if behind, sought := l.sought[next]; sought {
			l.sought[next] = append(behind, id)
			continue
		}
		l.looks[id], l.sought[next] = true, nil
		s := r.search(ctx, hashes[have:])
		note := &located{incarnation: r.incarnation, id: id, hashes: hashes, have: have, search: s}
		supervise.Job(ctx, r.life, s.run, func(findings findings, err error) any {
			note.findings = findings
			return note
		})
	}
}

// lookAhead starts the lookups of sequences that are admitted next while a step is in flight.
// Started after the step, a lookup would keep its sequence out of the next one too.
func (r *replica) lookAhead(ctx actor.Context) {
	if r.step != nil && r.lower != nil && r.lower.ready {
		r.look(ctx)
	}
}

func (r *replica) onLocated(ctx actor.Context, msg *located) {
	if r.lower != nil && msg.incarnation == r.incarnation {
		r.lower.located = append(r.lower.located, msg)
		r.advance(ctx)
	}
}

// goOn lets a sequence be admitted that was held until its blocks are restored.
func (r *replica) goOn(id string) {
	if id == "" {
		return // it was not for a sequence
	}
	delete(r.lower.looks, id)
	if r.departures[id] == nil { // else it is on its way to another replica
		r.batch.Resume(id)
	}
}

// seekOn lets those go on that waited for what became of a block.
func (r *replica) seekOn(next kv.Hash) {
	behind := r.lower.sought[next]
	delete(r.lower.sought, next)
	for _, id := range behind {
		if _, known := r.batch.State(id); known {
			r.lower.wanting[id] = true
			r.goOn(id)
		}
	}
}

// forget sees to it that nothing is taken for a sequence's that is gone.
func (l *lower) forget(id string) {
	delete(l.wanting, id)
	for next, behind := range l.sought {
		l.sought[next] = slices.DeleteFunc(behind, func(other string) bool { return other == id })
	}
	for _, up := range l.rising {
		if up.id == id {
			up.id = ""
			delete(l.looks, id)
		}
	}
}
