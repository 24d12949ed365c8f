package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/restore"
	"troupe/messages"
)

// core/restore decides what is restored for waiting sequences, and the copier, a child actor, looks
// up and copies the blocks. The messages and calls in this file are the machine's events.

// markPending reports a sequence that was submitted or preempted, and whose blocks may be in a lower
// tier.
func (r *replica) markPending(ctx actor.Context, id string) {
	if r.kvTiers != nil {
		r.performRestore(ctx, r.kvTiers.restores.Queued(id))
	}
}

// forgetRestore reports a sequence that no longer exists.
func (r *replica) forgetRestore(ctx actor.Context, id string) {
	if r.kvTiers != nil {
		r.performRestore(ctx, r.kvTiers.restores.Dropped(id))
	}
}

// lookupNext starts lookups for the sequences that are admitted next.
func (r *replica) lookupNext(ctx actor.Context) {
	for l := r.kvTiers; l.restores.CanLookUp(); {
		id, hashes, ok := r.batch.PeekWaiting()
		if !ok {
			return
		}
		r.performRestore(ctx, l.restores.Admissible(restore.Candidate{ID: id, Hashes: hashes,
			Have: r.pool.Match(hashes), Remote: l.hasRemote()}))
		if s := l.restores.State(id); s != restore.LookingUp && s != restore.Waiting {
			return
		}
	}
}

// lookupAhead starts lookups for the sequences that are admitted next while a step is in flight. A
// lookup started after the step would keep its sequence out of the next step too.
func (r *replica) lookupAhead(ctx actor.Context) {
	if r.machine.InFlight() && r.kvTiers != nil && r.kvTiers.ready {
		r.lookupNext(ctx)
	}
}

// startPrefetch restores a prefix for a command.
func (r *replica) startPrefetch(ctx actor.Context, command *restoreCommand, hashes []kv.Hash) {
	l := r.kvTiers
	l.lastPrefetch++
	l.prefetches[l.lastPrefetch] = command
	r.performRestore(ctx, l.restores.Prefetch(l.lastPrefetch, restore.Candidate{Hashes: hashes, Have: command.inHBM,
		Remote: l.hasRemote()}))
}

func (r *replica) onLookedUp(ctx actor.Context, msg *messages.LookUpBlocksResult) {
	if r.kvTiers == nil {
		return
	}
	sources, holders := make([]int, len(msg.GetSources())), make([]kv.Path, len(msg.GetHolders()))
	for i, s := range msg.GetSources() {
		sources[i] = int(s)
	}
	for i, run := range msg.GetHolders() {
		holders[i] = pathFrom(run)
	}
	r.performRestore(ctx, r.kvTiers.restores.LookedUp(msg.GetCopy(), sources, holders))
	r.Advance(ctx)
}

func (r *replica) onPartArrived(ctx actor.Context, msg *messages.FoundBlocksPart) {
	if r.kvTiers != nil {
		r.performRestore(ctx, r.kvTiers.restores.Arrived(msg.GetCopy(), int(msg.GetArrived()), int(msg.GetParts()),
			msg.GetElapsed().AsDuration()))
	}
}

func (r *replica) onCopied(ctx actor.Context, msg *messages.CopyFoundBlocksResult) {
	if r.kvTiers == nil {
		return
	}
	result := restore.Result{Blocks: int(msg.GetBlocks()), Reads: make([]restore.Read, len(msg.GetReads())),
		Fetched: int(msg.GetFetched()), FetchFailed: int(msg.GetFetchFailed()), Why: msg.GetDetail()}
	for i, t := range msg.GetReads() {
		result.Reads[i] = restore.Read{Bytes: int64(t.GetBytes()), Took: t.GetTook().AsDuration()}
	}
	r.performRestore(ctx, r.kvTiers.restores.Copied(msg.GetCopy(), result))
	r.Advance(ctx)
}

// onCopierReady handles a restart of the copier, which has ended its lookups and copies. The first
// incarnation has none.
func (r *replica) onCopierReady(ctx actor.Context, msg *messages.CopierReady) {
	if l := r.kvTiers; l != nil && msg.GetIncarnation() > l.copierLife {
		l.copierLife = msg.GetIncarnation()
		r.performRestore(ctx, l.restores.CopierLost())
		r.Advance(ctx)
	}
}

// applyRestores applies the results of ended copies, between two steps.
func (r *replica) applyRestores(ctx actor.Context) {
	if r.kvTiers != nil {
		r.performRestore(ctx, r.kvTiers.restores.EndRestores())
	}
}

// judgeLookups decides between two steps what is restored.
func (r *replica) judgeLookups(ctx actor.Context) {
	m := r.kvTiers.restores
	for number, id, ok := m.NextFound(); ok; number, id, ok = m.NextFound() {
		state, known := r.batch.State(id)
		prompt, output, _ := r.batch.Sequence(id)
		r.performRestore(ctx, m.Judged(number, restore.Sequence{Waits: known && state != batch.Running,
			Tokens: len(prompt) + len(output)}))
	}
}

// gateOf returns the number of the gate that an entry has to pass; 0: none.
func (r *replica) gateOf(e batch.Entry) uint64 {
	if !e.Restoring {
		return 0
	}
	gate := r.kvTiers.restores.Gate(e.ID)
	if gate == 0 {
		panic("replica: no restore fills the blocks of " + e.ID)
	}
	return gate
}
