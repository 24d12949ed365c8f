package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/messages"
)

// retryQueueFull is the RetryAfter of refusals because of a full queue.
const retryQueueFull = time.Second

func (r *replica) onSubmit(ctx actor.Context, msg *messages.SubmitSequence) {
	id := msg.GetRequestId()
	switch {
	case r.state == messages.ReplicaState_REPLICA_STATE_DRAINING:
		ctx.Respond(r.refuse(id, refusal(messages.Reason_REASON_DRAINING,
			"replica "+r.Spec.GetName()+" is draining", retryAfter)))
		return
	case r.state != messages.ReplicaState_REPLICA_STATE_SERVING:
		ctx.Respond(r.refuse(id, refusal(messages.Reason_REASON_NOT_READY,
			"replica "+r.Spec.GetName()+" is not serving yet", retryAfter)))
		return
	}
	if c, ok := r.sequences[id]; ok && r.reattach(ctx, id, c, len(msg.GetOutput())) {
		return
	}
	seq := msg.GetSequence()
	why := r.checkAdapter(seq)
	if len(msg.GetOutput()) > 0 && why == nil {
		why = r.checkRevision(msg.GetRevisionDigest())
	}
	if why != nil {
		ctx.Respond(r.refuse(id, why))
		return
	}
	ahead, refused := r.submit(ctx, r.batchRequest(id, seq, msg.GetOutput()))
	switch {
	case refused != nil && refused.Reason == batch.Finished: // the message with its Finish was lost
		ctx.Respond(r.accept(id, 0))
		ctx.Request(ctx.Sender(), &messages.TokensEmitted{
			RequestId: id, Incarnation: r.incarnation, FirstIndex: uint32(len(msg.GetOutput())),
			Finish: finishOf(batch.Length),
		})
		return
	case refused != nil:
		ctx.Respond(r.refuse(id, refusedByBatch(refused)))
		return
	}
	r.sequences[id] = &activeSequence{session: ctx.Sender(), spec: seq, outputBase: len(msg.GetOutput())}
	ctx.Respond(r.accept(id, ahead))
	r.markPending(id)
	r.requestAdapter(ctx, seq)
	r.lookupAhead(ctx)
	r.advance(ctx)
}

// submit queues a request. If the queue is full, the client with the most requests in it loses its
// newest one to a client with fewer.
func (r *replica) submit(ctx actor.Context, q batch.Request) (ahead int, refused *batch.Refusal) {
	ahead, refused = r.batch.Submit(q)
	if refused == nil || refused.Reason != batch.QueueFull {
		return ahead, refused
	}
	surplus := r.batch.QueueVictim(q)
	if surplus == "" {
		return 0, refused
	}
	why := refusedByBatch(&batch.Refusal{Reason: batch.QueueFull,
		Detail: "queue is full, and this client has the most requests in it; send fewer at once"})
	if _, ok := r.sequences[surplus]; ok {
		r.interrupt(ctx, surplus, why)
	}
	r.drop(ctx, surplus, "its client has the most requests in a full queue")
	return r.batch.Submit(q)
}

// reattach assigns a running sequence to the sender and repeats the tokens that the client has not
// seen. If the session has more output than the replica, or less than it submitted at first, reattach
// drops the sequence and reports false.
func (r *replica) reattach(ctx actor.Context, id string, c *activeSequence, seen int) bool {
	_, output, _ := r.batch.Sequence(id)
	if seen > len(output) || seen < c.outputBase {
		r.drop(ctx, id, "its session submitted it again")
		return false
	}
	r.markClaimed(ctx, id)
	c.session = ctx.Sender()
	ctx.Respond(r.accept(id, 0))
	if seen < len(output) {
		again := &messages.TokensEmitted{
			RequestId: id, Incarnation: r.incarnation, FirstIndex: uint32(seen), Tokens: output[seen:],
			CachedTokens: c.cached,
		}
		if c.logprobs != nil {
			again.Logprobs = c.logprobs[seen-c.outputBase:]
		}
		ctx.Request(c.session, again)
	}
	return true
}

// batchRequest converts a sequence to a request of the scheduler.
func (r *replica) batchRequest(id string, seq *messages.SequenceSpec, output []uint32) batch.Request {
	return batch.Request{
		ID: id, Class: batch.Class(seq.GetPriority()), Arrived: time.Now(),
		Adapter: seq.GetAdapterSpec().Key(),
		Root:    kv.Root(r.Spec.GetModel(), seq.GetAdapterSpec().Key(), seq.GetCacheSalt()),
		Prompt:  seq.GetPrompt(), Output: output,
		MaxOutput: int(seq.GetSampling().GetMaxTokens()), MinOutput: int(seq.GetSampling().GetMinTokens()),
		Stops:  r.stopTokens(seq),
		Client: seq.GetClient(), Weight: seq.GetWeight(),
	}
}

// stopTokens returns the tokens that end a sequence.
func (r *replica) stopTokens(seq *messages.SequenceSpec) []uint32 {
	stops := append([]uint32(nil), seq.GetSampling().GetStopTokenIds()...)
	if !seq.GetSampling().GetIgnoreEos() {
		stops = append(stops, r.model.GetEos()...)
	}
	return stops
}

// onCancel frees the blocks of a sequence immediately, or at the end of the step that it is in.
func (r *replica) onCancel(ctx actor.Context, msg *messages.CancelSequence) {
	id := msg.GetRequestId()
	if _, ok := r.sequences[id]; !ok {
		return
	}
	r.drop(ctx, id, "cancelled")
	r.scheduleReport(ctx)
	r.advance(ctx)
}

// drop removes a sequence and aborts its migration.
func (r *replica) drop(ctx actor.Context, id, why string) {
	r.batch.Drop(id)
	delete(r.sequences, id)
	if r.kvTiers != nil {
		r.kvTiers.forget(id)
	}
	r.abortIfMigrating(ctx, id, why)
}

func (r *replica) onGetSequence(ctx actor.Context, msg *messages.GetSequence) {
	status := &messages.SequenceStatus{RequestId: msg.GetRequestId()}
	if _, ok := r.sequences[msg.GetRequestId()]; ok {
		state, known := r.batch.State(msg.GetRequestId())
		_, output, _ := r.batch.Sequence(msg.GetRequestId())
		r.markClaimed(ctx, msg.GetRequestId())
		status.Known, status.State, status.OutputTokens = known, state.String(), uint32(len(output))
	}
	ctx.Respond(status)
}

func (r *replica) onDrain(ctx actor.Context) {
	r.drainRequester = ctx.Sender()
	if r.state == messages.ReplicaState_REPLICA_STATE_SERVING {
		r.setState(ctx, messages.ReplicaState_REPLICA_STATE_DRAINING)
	}
	r.advance(ctx)
}

// interrupt ends a sequence on this replica. Its session may continue it elsewhere.
func (r *replica) interrupt(ctx actor.Context, id string, why *messages.Refused) {
	ctx.Request(r.sequences[id].session, &messages.SequenceInterrupted{RequestId: id, Incarnation: r.incarnation,
		Refused: why})
}

func (r *replica) accept(id string, ahead int) *messages.SubmitSequenceResult {
	return &messages.SubmitSequenceResult{RequestId: id, Incarnation: r.incarnation,
		Outcome: &messages.SubmitSequenceResult_Accepted{
			Accepted: &messages.SequenceAccepted{Waiting: uint32(ahead), RevisionDigest: r.model.GetRevisionDigest()},
		}}
}

func (r *replica) refuse(id string, why *messages.Refused) *messages.SubmitSequenceResult {
	return &messages.SubmitSequenceResult{
		RequestId: id, Incarnation: r.incarnation, Outcome: &messages.SubmitSequenceResult_Refused{Refused: why},
	}
}

func refusal(reason messages.Reason, detail string, after time.Duration) *messages.Refused {
	return &messages.Refused{Reason: reason, Detail: detail, RetryAfter: durationpb.New(after)}
}

func (r *replica) status(ctx actor.Context) *messages.ReplicaStatus {
	s := &messages.ReplicaStatus{
		Name: r.Spec.GetName(), Model: r.Spec.GetModel(), Gpu: r.Spec.GetGpu(), Node: r.Spec.GetNode(),
		State: r.state, Incarnation: r.incarnation,
		Actor: &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()},
		Steps: r.steps, TokensIn: r.totals.tokensIn, TokensOut: r.totals.tokensOut, TokensCached: r.totals.tokensCached,
		Preemptions: r.totals.preemptions, Loads: *r.loads, Load: r.model.GetMetrics(),
		MaxSequences: r.Spec.GetMaxSequences(), StepTokens: r.Spec.GetStepTokens(),
		BlockTokens: r.Spec.GetBlockTokens(),
		MigratedIn:  r.totals.migratedIn, MigratedOut: r.totals.migratedOut,
		SequencesNotFinite: r.totals.notFinite, NotFinite: r.lastNotFinite,
		WeightsDigest: r.model.GetWeightsDigest(), RevisionDigest: r.model.GetRevisionDigest(),
		FoundRevision: r.foundRevision,
		FolderFault:   r.folderFault,
	}
	if r.lora != nil {
		s.Adapters, s.AdapterCounts, s.AdaptersAwaited = r.lora.list(), r.lora.counts, uint32(r.lora.pins.Pending())
	}
	if r.kvTiers != nil {
		t := r.kvTiers.totals
		s.KvOffloaded, s.KvRestored, s.KvRecomputed = t.offloaded, t.restored, t.recomputed
		s.KvRestores, s.KvRestoresAvoided = t.restores, t.avoided
		s.KvRestoresOverlapped, s.KvStepsAborted = t.overlapped, t.aborted
		s.KvOffloadReady = r.kvTiers.ready
		s.KvFetched, s.KvFetchFailed, s.KvLent = t.fetched, t.fetchFailed, t.exported
	}
	if r.batch != nil {
		kv := r.pool.Stats()
		s.Running, s.Waiting = uint32(r.batch.Running()), uint32(r.batch.Waiting())
		s.KvBlocksAlone = r.model.GetKvBlocksAlone()
		s.KvBlocks, s.KvBlocksFree, s.KvBlocksCached = uint32(kv.Blocks), uint32(kv.Free), uint32(kv.Cached)
		s.KvHits, s.KvMisses, s.KvEvictions = kv.Hits, kv.Misses, kv.Evictions
		s.KvBlocksPinned, s.KvBlockBytes = uint32(r.pool.Pinned()), r.model.GetKvBlockBytes()
	}
	return s
}
