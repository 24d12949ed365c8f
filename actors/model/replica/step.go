package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/batch"
	"troupe/messages"
)

// maxBatchCrashes is the number of times a step may crash before its sequences run one by one, to
// find the one that crashes it.
const maxBatchCrashes = 2

// advance starts the next step, unless one is in flight or there is nothing to do.
func (r *replica) advance(ctx actor.Context) {
	r.syncPins(ctx)
	if r.step != nil || !r.ready {
		return
	}
	for len(r.isolated) > 0 {
		next := r.isolated[0]
		r.isolated = r.isolated[1:]
		if p, _ := r.batch.Progress(next.ID); next.Restoring && !p.Restoring {
			continue // the sequence may be gone, and with it the restore that fills its blocks
		}
		r.runStep(ctx, []batch.Entry{next})
		r.step.crashes = maxBatchCrashes
		return
	}
	r.applyRestores(ctx)
	if r.advanceShrink(ctx) {
		return
	}
	r.tickTiers(ctx)
	plan, ok := r.batch.Plan(time.Now())
	r.interruptRejected(ctx, plan.Rejected)
	r.syncPins(ctx)
	if !ok {
		r.onIdle(ctx)
		return
	}
	r.onPreempted(ctx, plan.Preempted)
	r.runStep(ctx, plan.Entries)
}

// onIdle answers a pending drain once no sequence is left.
func (r *replica) onIdle(ctx actor.Context) {
	r.publishBlocks(ctx)
	if r.drainRequester != nil && len(r.sequences) == 0 {
		ctx.Send(r.drainRequester, &messages.ReplicaDrained{Replica: r.Spec.GetName()})
		r.drainRequester = nil
	}
}

// runStep sends a step to the engine, after it has published the block changes: the step
// overwrites evicted blocks.
func (r *replica) runStep(ctx actor.Context, entries []batch.Entry) {
	r.publishBlocks(ctx)
	r.steps++
	r.pool.Tick()
	r.lastStepAt = time.Now()
	step := &inflightStep{entries: entries, began: time.Now()}
	step.command = &messages.RunStep{Step: r.steps, Sequences: make([]*messages.StepSequence, len(entries))}
	for i, e := range entries {
		step.command.Sequences[i] = r.stepSequence(e)
		step.prompt += r.promptTokens(e)
	}
	r.totals.tokensIn += step.prompt
	r.step = step
	ctx.Request(r.engine, step.command)
}

// promptTokens returns how many of an entry's tokens belong to the prompt; the others were
// generated.
func (r *replica) promptTokens(e batch.Entry) uint64 {
	prompt, _, _ := r.batch.Sequence(e.ID)
	return uint64(max(0, min(len(prompt)-e.Position, len(e.Tokens))))
}

// stepSequence converts one entry of a step for the engine.
func (r *replica) stepSequence(e batch.Entry) *messages.StepSequence {
	s := &messages.StepSequence{Tokens: e.Tokens, Position: uint32(e.Position), Blocks: e.Blocks, Sample: e.Sample,
		Adapter: e.Adapter, Gate: r.gateOf(e)}
	c, ok := r.sequences[e.ID]
	if !e.Sample || !ok { // a cancelled sequence is computed to the end of the step, without a session
		return s
	}
	s.Sampling = c.spec.GetSampling()
	if needsHistory(s.Sampling) {
		s.Prompt, s.Output, _ = r.batch.Sequence(e.ID)
	}
	if least := s.Sampling.GetMinTokens(); least > 0 {
		if _, output, _ := r.batch.Sequence(e.ID); uint32(len(output)) < least {
			s.Banned = r.stopTokens(c.spec)
		}
	}
	return s
}

// publishBlocks reports the block changes since the last call to the HBM tier.
func (r *replica) publishBlocks(ctx actor.Context) {
	evicted, committed := r.pool.Changes()
	if len(evicted) == 0 && len(committed) == 0 {
		return
	}
	r.announcer.Apply(evicted, committed)
	msg := &messages.BlocksChanged{Lease: r.model.GetLease(), Committed: make([]*messages.Block, len(committed))}
	for _, b := range evicted {
		msg.Evicted = append(msg.Evicted, uint32(b))
	}
	for i, c := range committed {
		msg.Committed[i] = &messages.Block{Index: uint32(c.Block), Hash: c.Hash[:]}
	}
	ctx.Send(r.HBM, msg)
}

// onEngineReady handles the start of the engine, or its restart after a crash that lost the step in
// flight. A step writes only its own KV slots, and it samples as a function of seed and position.
// It can therefore be run again.
func (r *replica) onEngineReady(ctx actor.Context) {
	if !r.ready && !r.stopping {
		r.ready = true
		r.serve(ctx)
		return
	}
	if r.step == nil || r.stopping {
		return
	}
	r.step.crashes++
	entries := r.step.entries
	switch {
	case r.step.crashes < maxBatchCrashes:
		ctx.Request(r.engine, r.step.command)
	case r.step.crashes == maxBatchCrashes:
		r.isolated, r.step = entries, nil
		r.advance(ctx)
	default: // crashed on a single sequence
		r.step = nil
		r.dropPoison(ctx, entries[0].ID)
		r.betweenSteps(ctx)
		r.advance(ctx)
	}
}

// dropPoison drops a sequence that crashes the engine.
func (r *replica) dropPoison(ctx actor.Context, id string) {
	r.Log.Error().Str("request", id).Msg("sequence dropped: the engine crashes on it")
	if _, ok := r.sequences[id]; ok {
		r.interrupt(ctx, id, refusal(messages.Reason_REASON_ENGINE_FAILED, "the engine crashes on this request", 0))
	}
	r.drop(ctx, id, "the engine crashes on it")
}

func (r *replica) onStepResult(ctx actor.Context, msg *messages.RunStepResult) {
	if r.step == nil || msg.GetStep() != r.step.command.GetStep() {
		return
	}
	if aborted := msg.GetAborted(); aborted != nil {
		r.onStepAborted(ctx, aborted)
		return
	}
	entries, tokens := r.step.entries, msg.GetDone().GetTokens()
	r.measurePrefill(ctx, r.step)
	r.finishOverlapped(ctx, entries)
	r.step = nil
	sampled := make([]uint32, len(tokens))
	for i, t := range tokens {
		sampled[i] = t.GetToken()
	}
	logprobs := logprobsByID(entries, tokens)
	r.dropNotFinite(ctx, entries, tokens)
	for _, e := range r.batch.Done(entries, sampled) {
		r.emit(ctx, e, logprobs[e.ID])
	}
	r.scheduleReport(ctx)
	r.betweenSteps(ctx)
	r.advance(ctx)
}

// logprobsByID returns nil if no sequence requested log-probabilities.
func logprobsByID(entries []batch.Entry, tokens []*messages.SampledToken) map[string]*messages.TokenLogprobs {
	var byID map[string]*messages.TokenLogprobs
	i := 0
	for _, e := range entries {
		if !e.Sample {
			continue
		}
		if lp := tokens[i].GetLogprobs(); lp != nil {
			if byID == nil {
				byID = make(map[string]*messages.TokenLogprobs)
			}
			byID[e.ID] = lp
		}
		i++
	}
	return byID
}

// emit sends a token to its session. A stop token ends the sequence and is not part of the output.
func (r *replica) emit(ctx actor.Context, e batch.Emission, lp *messages.TokenLogprobs) {
	c, ok := r.sequences[e.ID]
	if !ok {
		return // cancelled while the step ran
	}
	msg := &messages.TokensEmitted{
		RequestId: e.ID, Incarnation: r.incarnation, FirstIndex: uint32(e.Index), Finish: finishOf(e.Finish),
		CachedTokens: uint32(e.Cached),
	}
	if e.Finish != batch.Stop {
		r.totals.tokensOut++
		msg.Tokens = []uint32{e.Token}
		if lp != nil {
			msg.Logprobs = []*messages.TokenLogprobs{lp}
			c.logprobs = append(c.logprobs, lp)
		}
	}
	if c.cached == 0 && e.Cached > 0 {
		c.cached = uint32(e.Cached)
		r.totals.tokensCached += uint64(e.Cached)
	}
	ctx.Request(c.session, msg)
	if e.Finish != batch.None {
		r.drop(ctx, e.ID, "finished")
	}
}

func finishOf(f batch.Finish) messages.FinishReason {
	switch f {
	case batch.Stop:
		return messages.FinishReason_FINISH_REASON_STOP
	case batch.Length:
		return messages.FinishReason_FINISH_REASON_LENGTH
	}
	return messages.FinishReason_FINISH_REASON_UNSPECIFIED
}

var batchReasons = map[batch.Reason]messages.Reason{
	batch.QueueFull:      messages.Reason_REASON_QUEUE_FULL,
	batch.TooLong:        messages.Reason_REASON_TOO_LONG,
	batch.Duplicate:      messages.Reason_REASON_ALREADY_EXISTS,
	batch.Invalid:        messages.Reason_REASON_INVALID_ARGUMENT,
	batch.Finished:       messages.Reason_REASON_CONFLICT,
	batch.NoRoom:         messages.Reason_REASON_NO_MEMORY,
	batch.NoAdapter:      messages.Reason_REASON_UNSUPPORTED,
	batch.AdapterLoading: messages.Reason_REASON_NOT_READY,
}

func refusedByBatch(r *batch.Refusal) *messages.Refused {
	m := &messages.Refused{Reason: batchReasons[r.Reason], Detail: r.Detail}
	if r.Reason == batch.QueueFull {
		return refusal(m.GetReason(), m.GetDetail(), retryQueueFull)
	}
	return m
}
