package tiering

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/restore"
	"troupe/messages"
)

// core/restore decides which blocks are restored for waiting sequences. The copier, a child actor,
// looks up and copies the blocks. The messages and calls in this file are the events of the
// machine.

// Queued reports a sequence that was submitted or preempted, and whose blocks may be in a lower
// tier.
func (t *Tiering) Queued(ctx actor.Context, id string) {
	if t.kvTiers != nil {
		t.performRestore(ctx, t.kvTiers.restores.Queued(id))
	}
}

// Dropped reports a sequence that no longer exists.
func (t *Tiering) Dropped(ctx actor.Context, id string) {
	if t.kvTiers != nil {
		t.performRestore(ctx, t.kvTiers.restores.Dropped(id))
	}
}

// Restoring reports whether a sequence is held for the lookup or restore of its blocks.
func (t *Tiering) Restoring(id string) bool { return t.kvTiers != nil && t.kvTiers.restores.Holds(id) }

// lookupNext starts lookups for the sequences that are next in line for admission.
func (t *Tiering) lookupNext(ctx actor.Context) {
	for l := t.kvTiers; l.restores.CanLookUp(); {
		id, hashes, ok := t.Machine.Batch().PeekWaiting()
		if !ok {
			return
		}
		t.performRestore(ctx, l.restores.Admissible(restore.Candidate{ID: id, Hashes: hashes,
			Have: t.Machine.Pool().Match(hashes), Remote: l.hasRemote()}))
		if s := l.restores.State(id); s != restore.LookingUp && s != restore.Waiting {
			return
		}
	}
}

// LookUpAhead starts lookups for the sequences that are next in line for admission, while a step is
// in flight. A lookup started after the step would also keep its sequence out of the next step.
func (t *Tiering) LookUpAhead(ctx actor.Context) {
	if t.Machine.InFlight() && t.kvTiers != nil && t.kvTiers.ready {
		t.lookupNext(ctx)
	}
}

// startPrefetch restores a prefix for a command.
func (t *Tiering) startPrefetch(ctx actor.Context, command *restoreCommand, hashes []kv.Hash) {
	l := t.kvTiers
	l.lastPrefetch++
	l.prefetches[l.lastPrefetch] = command
	t.performRestore(ctx, l.restores.Prefetch(l.lastPrefetch, restore.Candidate{Hashes: hashes, Have: command.inHBM,
		Remote: l.hasRemote()}))
}

func (t *Tiering) OnLookedUp(ctx actor.Context, msg *messages.LookUpBlocksResult) {
	if t.kvTiers == nil {
		return
	}
	sources, holders := make([]int, len(msg.GetSources())), make([]kv.Path, len(msg.GetHolders()))
	for i, s := range msg.GetSources() {
		sources[i] = int(s)
	}
	for i, run := range msg.GetHolders() {
		holders[i] = pathFrom(run)
	}
	t.performRestore(ctx, t.kvTiers.restores.LookedUp(msg.GetCopy(), sources, holders))
	t.host.Advance(ctx)
}

func (t *Tiering) OnPartArrived(ctx actor.Context, msg *messages.FoundBlocksPart) {
	if t.kvTiers != nil {
		t.performRestore(ctx, t.kvTiers.restores.Arrived(msg.GetCopy(), int(msg.GetArrived()), int(msg.GetParts()),
			msg.GetElapsed().AsDuration()))
	}
}

func (t *Tiering) OnCopied(ctx actor.Context, msg *messages.CopyFoundBlocksResult) {
	if t.kvTiers == nil {
		return
	}
	result := restore.Result{Blocks: int(msg.GetBlocks()), Reads: make([]restore.Read, len(msg.GetReads())),
		Fetched: int(msg.GetFetched()), FetchFailed: int(msg.GetFetchFailed()), Why: msg.GetDetail()}
	for i, read := range msg.GetReads() {
		result.Reads[i] = restore.Read{Bytes: int64(read.GetBytes()), Took: read.GetTook().AsDuration()}
	}
	t.performRestore(ctx, t.kvTiers.restores.Copied(msg.GetCopy(), result))
	t.host.Advance(ctx)
}

// OnCopierReady handles a restart of the copier, which has ended its lookups and copies. The first
// incarnation has none.
func (t *Tiering) OnCopierReady(ctx actor.Context, msg *messages.CopierReady) {
	if l := t.kvTiers; l != nil && msg.GetIncarnation() > l.copierLife {
		l.copierLife = msg.GetIncarnation()
		t.performRestore(ctx, l.restores.CopierLost())
		t.performOffload(ctx, t.offloads.machine.CopyLost(supervise.Now(ctx)))
		t.host.Advance(ctx)
	}
}

// ApplyRestores applies the results of ended copies, between two steps.
func (t *Tiering) ApplyRestores(ctx actor.Context) {
	if t.kvTiers != nil {
		t.performRestore(ctx, t.kvTiers.restores.EndRestores())
	}
}

// judgeLookups decides, between two steps, which of the found blocks are restored.
func (t *Tiering) judgeLookups(ctx actor.Context) {
	m := t.kvTiers.restores
	for number, id, ok := m.NextFound(); ok; number, id, ok = m.NextFound() {
		state, known := t.Machine.Batch().State(id)
		prompt, output, _ := t.Machine.Batch().Sequence(id)
		t.performRestore(ctx, m.Judged(number, restore.Sequence{Waits: known && state != batch.Running,
			Tokens: len(prompt) + len(output)}))
	}
}

// GateOf returns the number of the gate that an entry has to pass; 0: none.
func (t *Tiering) GateOf(e batch.Entry) uint64 {
	if !e.Restoring {
		return 0
	}
	gate := t.kvTiers.restores.Gate(e.ID)
	if gate == 0 {
		panic("replica: no restore fills the blocks of " + e.ID)
	}
	return gate
}

// RestoreRead reports that the first step of a sequence is done, so its restored blocks have
// arrived.
func (t *Tiering) RestoreRead(ctx actor.Context, id string) {
	t.performRestore(ctx, t.kvTiers.restores.StepDone(id))
}

// StepAborted reports that the gate of a sequence failed in a step.
func (t *Tiering) StepAborted(ctx actor.Context, id string) {
	t.performRestore(ctx, t.kvTiers.restores.StepAborted(id))
}

// PrefillMeasured reports the duration of a step with a prefill.
func (t *Tiering) PrefillMeasured(tokens int, took time.Duration) {
	if t.kvTiers != nil {
		t.kvTiers.restores.Prefilled(tokens, took)
	}
}
