package replica

import (
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/utilization"
)

// Advance reports that something changed that the next step may depend on, and the number of
// migrations that wait for a step to end. It runs the next isolated entry, if there is one. The
// caller then calls Release and Plan while MayPlan returns true. In this order, restored blocks are
// applied before memory is released, and both happen before the next step is planned.
func (m *Machine) Advance(offers int, now time.Time) []Effect {
	m.syncPins(offers)
	if m.step == Isolating {
		return m.on(event{kind: evAdvance, now: now})
	}
	return m.take()
}

// pick selects an isolated entry to run. An entry that reads restored blocks is skipped if its
// sequence, and with it the restore, is gone.
func (m *Machine) pick(e *event) {
	for len(m.isolated) > 0 {
		next := m.isolated[0]
		m.isolated = m.isolated[1:]
		if p, _ := m.batch.Progress(next.ID); !next.Restoring || p.Restoring {
			m.raise(event{kind: evPicked, entries: []batch.Entry{next}, now: e.now})
			return
		}
	}
	m.raise(event{kind: evExhausted, now: e.now})
}

// Plan plans the next step. It starts the step, or reports that there is nothing to compute.
func (m *Machine) Plan(now time.Time) []Effect { return m.on(event{kind: evPlan, now: now}) }

func (m *Machine) plan(e *event) {
	if m.batch.Running()+m.batch.Waiting() > 1 {
		m.dropCanary()
	}
	plan, ok := m.planCheck(e.now)
	if !ok {
		m.preempted(plan.Preempted)
		plan, ok = m.batch.Plan(e.now)
	}
	for _, w := range plan.Rejected {
		m.add(Rejected{w.ID, w.Adapter, w.Refusal.Detail})
		m.interrupt(w.ID, Refusal{Reason: poolReasons[w.Refusal.Reason], Detail: w.Refusal.Detail})
		m.drop(w.ID, w.Refusal.Detail)
	}
	m.syncPins(m.offers)
	next := event{kind: evNothing, now: e.now}
	if ok {
		next = event{kind: evPlanned, entries: plan.Entries, preempted: plan.Preempted, now: e.now}
	}
	m.raise(next)
}

// rest answers a drain, or ends Suspending, once no sequence is left.
func (m *Machine) rest(e *event) {
	m.turnEvent(evUnused, e.now)
	m.publishBlocks()
	if len(m.sequences) > 0 {
		return
	}
	if m.drain {
		m.drain = false
		m.add(Drained{m.departures})
	}
	if m.state == Suspending {
		m.raise(event{kind: evEmpty, now: e.now})
	}
}

func (m *Machine) runPlan(e *event) {
	m.preempted(e.preempted)
	m.runStep(e)
}

// preempted reports the sequences that the scheduler has preempted.
func (m *Machine) preempted(all []batch.Preemption) {
	for _, p := range all {
		m.totals.Preemptions++
		m.add(Preempted(p), Queued{ID: p.ID})
	}
}

// runStep starts a step. It first reports the block changes, because the step overwrites evicted
// blocks.
func (m *Machine) runStep(e *event) {
	m.publishBlocks()
	m.steps++
	m.pool.Tick()
	if !isCanary(e.entries) {
		m.lastStep = e.now
	}
	m.current = inflight{entries: e.entries, step: m.steps, prompt: m.promptTokens(e.entries), began: e.now}
	m.totals.TokensIn += m.current.prompt
	m.add(RunStep{m.steps, e.entries})
}

// promptTokens returns the number of tokens in a step that belong to prompts. The others were
// generated.
func (m *Machine) promptTokens(entries []batch.Entry) (n uint64) {
	if isCanary(entries) {
		return 0
	}
	for _, e := range entries {
		prompt, _, _ := m.batch.Sequence(e.ID)
		n += uint64(max(0, min(len(prompt)-e.Position, len(e.Tokens))))
	}
	return n
}

// publishBlocks reports the block changes since the last call.
func (m *Machine) publishBlocks() {
	evicted, committed := m.pool.Changes()
	if len(evicted)+len(committed) > 0 {
		m.announcer.Apply(evicted, committed)
		m.add(BlocksChanged{evicted, committed})
	}
}

// PublishBlocks reports the block changes since the last report.
func (m *Machine) PublishBlocks() []Effect {
	m.publishBlocks()
	return m.take()
}

// StepWorked counts the work of the step in flight, before StepDone. The work of another step is ignored.
func (m *Machine) StepWorked(step uint64, work utilization.Work, least time.Duration) {
	if m.InFlight() && step == m.current.step {
		m.current.work, m.current.least = work, least
	}
}

// StepDone reports the tokens of a step: one for each entry that samples, in order. notFinite has
// the indices of the entries whose logits are NaN or infinite, for which no token can be sampled.
func (m *Machine) StepDone(step uint64, sampled []uint32, notFinite []int, now time.Time) []Effect {
	return m.on(event{kind: evStepDone, number: step, sampled: sampled, notFinite: notFinite, now: now})
}

func (m *Machine) stepDone(e *event) {
	entries := m.current.entries
	m.measureStep(e.now)
	m.measurePrefill(e.now)
	for _, entry := range entries {
		if p, _ := m.batch.Progress(entry.ID); entry.Restoring && p.Restoring {
			m.add(RestoreRead{entry.ID})
		}
	}
	m.dropNotFinite(entries, e)
	tokens := m.batch.Done(entries, e.sampled)
	for _, t := range tokens {
		if q := m.sequences[t.ID]; q != nil { // a canary has none
			q.last = e.now
		}
	}
	m.endStep(e.now)
	m.emit(entries, tokens, e)
	m.reportSoon()
	m.add(StepEnded{})
	m.raise(event{kind: evStepOver, now: e.now})
}

// emit sends tokens to their sessions and drops the sequences that end. A stop token ends a
// sequence and is not part of the output.
func (m *Machine) emit(entries []batch.Entry, all []batch.Emission, done *event) {
	if len(all) == 0 {
		return
	}
	if isCanary(entries) {
		m.canaryTook = done.now.Sub(m.current.began)
		m.batch.Drop(canaryID)
		m.canaryDone(all[0].Token, len(done.notFinite) == 0, done)
		return
	}
	m.add(Emit{entries, all})
	for _, e := range all {
		if e.Finish != batch.Stop {
			m.totals.TokensOut++
		}
		if q := m.sequences[e.ID]; q.cached == 0 && e.Cached > 0 {
			q.cached = e.Cached
			m.totals.TokensCached += uint64(e.Cached)
		}
		if e.Finish != batch.None {
			if m.leaving() {
				m.departures.Finished++
			}
			m.drop(e.ID, "finished")
		}
	}
}

// dropNotFinite drops the sequences without finite logits. The other sequences of the step are
// unaffected, because no sequence's computation depends on another's. All blocks of a dropped
// sequence are discarded, including shared ones: they may be the source of the NaN.
func (m *Machine) dropNotFinite(entries []batch.Entry, e *event) {
	i := 0
	for _, entry := range entries {
		if !entry.Sample {
			continue
		}
		if slices.Contains(e.notFinite, i) {
			m.endNotFinite(entry.ID, e.now)
		}
		i++
	}
}

func (m *Machine) endNotFinite(id string, now time.Time) {
	q := m.sequences[id]
	if q == nil {
		return
	}
	subject := "model " + m.cfg.Model
	if q.adapter != "" {
		subject = "adapter " + q.adapter + " of " + subject
	}
	m.totals.NotFinite++
	m.lastNotFinite = subject + " at " + now.UTC().Format(time.RFC3339)
	m.add(Nonfinite{id, q.adapter})
	m.interrupt(id, Refusal{Reason: NotFinite, Detail: subject + " computed NaN or infinity for this request; " +
		"check its weights, or run it without the adapter"})
	m.batch.Discard(id)
	m.drop(id, "its logits are not finite")
}

// measurePrefill records the duration of a step with a prefill, unless it may have waited at a
// gate. A hung step and a canary say nothing about prefills.
func (m *Machine) measurePrefill(now time.Time) {
	if m.Faulty() || isCanary(m.current.entries) {
		return
	}
	tokens, prefills := 0, false
	for _, e := range m.current.entries {
		if e.Restoring {
			return
		}
		tokens, prefills = tokens+len(e.Tokens), prefills || len(e.Tokens) > 1
	}
	if prefills {
		took := now.Sub(m.current.began)
		m.batch.Observe(tokens, took)
		m.add(PrefillMeasured{tokens, took})
	}
}

// StepAborted reports that a step was aborted because the gate of an entry failed.
func (m *Machine) StepAborted(step uint64, entry int, why string, now time.Time) []Effect {
	return m.on(event{kind: evStepAborted, number: step, n: entry, id: why, now: now})
}

// stepAborted plans the next step without the sequence of the failed gate. That sequence waits for
// its restore to end.
func (m *Machine) stepAborted(e *event) {
	id := m.current.entries[e.n].ID
	m.totals.TokensIn -= m.current.prompt
	m.batch.RestoreFailed(id)
	m.turn.used += e.now.Sub(m.current.began)
	m.endStep(e.now)
	m.add(StepAborted{id, e.id}, StepEnded{})
	m.raise(event{kind: evStepOver, now: e.now})
}

func (m *Machine) repeat(e *event) {
	m.current.began, m.current.stalled = e.now, 0
	m.add(RepeatStep{})
}

// isolate makes the entries of a crashing step run one by one, to find the one that causes the
// crash.
func (m *Machine) isolate(*event) {
	m.isolated = m.current.entries
	m.add(Advance{})
}

// dropPoison drops a sequence that crashes the engine when it runs alone.
func (m *Machine) dropPoison(e *event) {
	id := m.current.entries[0].ID
	m.raise(event{kind: evStepOver, now: e.now})
	if id == canaryID {
		m.canaryFailed("the engine crashes on it", e.now)
	}
	m.add(Poisoned{id})
	m.interrupt(id, Refusal{Reason: EngineFailed, Detail: "the engine crashes on this request"})
	m.drop(id, "the engine crashes on it")
	m.endStep(e.now)
	m.add(StepEnded{})
}

// halt forgets the step in flight: the engine stops with the replica.
func (m *Machine) halt(*event) { m.isolated = nil }
