package restore

import (
	"slices"
	"time"

	"troupe/core/kv"
)

func (m *Machine) reserve(e *entry, v event) {
	if e.command == 0 {
		m.counts.Restores++
	}
	e.tokens, e.why, e.within = v.sequence.Tokens, v.decision.Why, max(v.decision.Recompute, minRestoreTimeout)
	m.emit(Reserve{e.number, e.hashes[:e.have], v.decision.Blocks})
}

// copyBlocks starts the copies. Copies for a sequence have a gate if the blocks are copied in
// several parts.
func (m *Machine) copyBlocks(e *entry, v event) {
	e.begin, e.blocks = v.begin, v.blocks
	c := Copy{Number: e.number, ID: e.id, Blocks: e.blocks, Within: e.within, Parts: 1, Why: e.why}
	if e.command == 0 && m.cfg.Parts > 1 && len(e.blocks) > 0 {
		c.Parts, c.Gate, e.gate = m.cfg.Parts, true, true
	}
	left := e.tokens - (len(e.begin)+len(e.blocks))*m.cfg.BlockTokens
	e.estimate = kv.OverlapEstimate{Prefill: m.prefill, Tokens: min(max(left, 1), m.cfg.StepTokens)}
	m.emit(c)
}

// arrive records that another part has arrived, and decides whether the sequence may start.
func (e *entry) arrive(arrived, parts int, elapsed time.Duration) kv.OverlapDecision {
	e.estimate.Arrived, e.estimate.Parts, e.estimate.Elapsed = arrived, parts, elapsed
	if arrived == 1 {
		e.estimate.FirstAfter = elapsed
	}
	return e.estimate.Decide()
}

func (m *Machine) inTime(e *entry, v event) bool { return e.gate && v.overlap.Start }

func (m *Machine) canStart(e *entry, v event) {
	m.ready = append(m.ready, e.number)
	slices.Sort(m.ready)
	m.emit(CanStart{e.id, v.overlap.Why})
}

func (m *Machine) start(e *entry, _ event) {
	m.emit(StartSequence{e.number, e.id, slices.Concat(e.begin, e.blocks), len(e.begin)})
}

func (m *Machine) stepDone(e *entry, _ event) {
	m.counts.Overlapped++
	e.id = ""
}

func (m *Machine) undoStart(e *entry, _ event) { m.emit(UndoStart{e.id}) }

func (m *Machine) unended(e *entry, _ event) bool { return e.result == nil }

func (m *Machine) keepResult(e *entry, v event) {
	e.result = &v.result
	m.ended = append(m.ended, e.number)
}

func (m *Machine) copiesLost(e *entry, _ event) {
	m.keepResult(e, event{result: Result{Why: "the copier crashed"}})
}

func (m *Machine) complete(e *entry, _ event) bool { return e.result.Blocks == len(e.blocks) }

func (m *Machine) endCommand(e *entry, _ event) {
	m.closeCopies(e)
	m.commit(e)
	m.settle(e)
	m.emit(Answer{e.command, e.result.Blocks, ""})
	m.emit(Report{})
}

// endHeld ends the copies for a held sequence. The sequence is then admitted with the blocks that
// arrived.
func (m *Machine) endHeld(e *entry, v event) {
	m.closeCopies(e)
	m.endUnstarted(e, v)
}

func (m *Machine) endUndone(e *entry, v event) {
	m.closeCopies(e)
	m.emit(UndoStart{e.id})
	m.endUnstarted(e, v)
}

func (m *Machine) endUnstarted(e *entry, v event) {
	m.commit(e)
	m.settle(e)
	m.emit(Report{})
	m.resume(e, v)
	m.wake(e, v)
}

// endPreempted does the same as endHeld for a sequence that is looked up again before it is next
// admitted.
func (m *Machine) endPreempted(e *entry, v event) {
	m.endHeld(e, v)
	*e = entry{id: e.id, state: e.state}
}

// endStarted ends the copies for a running sequence whose first step is not done. The sequence
// commits its full blocks itself, since it may be writing to the last one.
func (m *Machine) endStarted(e *entry, v event) {
	m.closeCopies(e)
	m.emit(FinishStart{e.id})
	m.settle(e)
	m.emit(Report{})
	m.wake(e, v)
}

// endTaken does the same as endStarted for a sequence whose first step is done.
func (m *Machine) endTaken(e *entry, v event) {
	m.closeCopies(e)
	m.settle(e)
	m.emit(Report{})
	m.wake(e, v)
}

func (m *Machine) endAbandoned(e *entry, v event) {
	m.closeCopies(e)
	m.commit(e)
	m.settle(e)
	m.emit(Report{})
	m.wake(e, v)
}

func (m *Machine) closeCopies(e *entry) {
	if e.result.Why != "" {
		m.emit(Incomplete{e.id, e.result.Why})
	}
	if e.gate {
		m.emit(CloseGate{e.number})
	}
}

func (m *Machine) commit(e *entry) {
	if n := e.result.Blocks; n > 0 {
		m.emit(Commit{e.blocks[:n], e.hashes[e.have : e.have+n]})
	}
}

// settle records the results of the copies and releases their blocks.
func (m *Machine) settle(e *entry) {
	var backed MarkBacked
	for i, b := range e.blocks[:e.result.Blocks] {
		if e.sources[i] < len(m.cfg.Tiers) {
			backed.Blocks, backed.Hashes = append(backed.Blocks, b), append(backed.Hashes, e.hashes[e.have+i])
		}
	}
	if len(backed.Blocks) > 0 {
		m.emit(backed)
	}
	m.counts.Restored += uint64(len(backed.Blocks))
	m.counts.Recomputed += uint64(len(e.blocks) - e.result.Blocks)
	m.counts.Fetched += uint64(e.result.Fetched)
	m.counts.FetchFailed += uint64(e.result.FetchFailed)
	for i, r := range e.result.Reads {
		m.rates[i].Add(float64(r.Bytes), r.Took)
	}
	m.emit(Release{slices.Concat(e.begin, e.blocks)})
}
