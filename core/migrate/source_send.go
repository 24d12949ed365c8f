package migrate

import "slices"

// offer offers a running sequence.
func (m *Source) offer(o *outgoing, e event) {
	s := e.sequence
	m.attempt++
	o.Attempt, o.sent, o.startedAt, o.accounted = m.attempt, 1, e.now, len(s.Hashes)
	m.outgoing[o.ID] = o
	o.command.active++
	m.emit(Watch{o.command.To})
	m.emit(SendOffer{o.Key, o.command.To, s.Tokens, s.Hashes})
	m.setTimer(o, e)
}

// offerQueued offers a waiting sequence. It has no blocks, and being held keeps it from getting
// any.
func (m *Source) offerQueued(o *outgoing, e event) {
	m.emit(HoldSequence{o.ID})
	m.offer(o, e)
}

func (m *Source) setTimer(o *outgoing, _ event) {
	m.emit(SetTimer{o.Key, resendEvery})
}

func (m *Source) repeat(o *outgoing, e event) {
	o.sent++
	m.emit(Repeat{o.Key, o.command.To})
	m.setTimer(o, e)
}

// unanswered reports whether the target has left all repeated messages unanswered.
func (m *Source) unanswered(o *outgoing, _ event) bool { return o.sent > maxResends }

func (m *Source) pausedLong(o *outgoing, e event) bool { return e.now.Sub(o.pausedAt) > pauseTimeout }

func (m *Source) startedLong(o *outgoing, e event) bool {
	return e.now.Sub(o.startedAt) > migrateTimeout
}

// toSend returns the blocks that the target lacks: the full ones and, with partial, also the last
// one.
func (m *Source) toSend(o *outgoing, e event, partial bool) []uint32 {
	blocks := slices.Clone(o.unsent)
	if e.kind == Offered {
		blocks = slices.Clone(e.missing)
	}
	full := len(e.sequence.Hashes)
	for i := o.accounted; i < full; i++ {
		blocks = append(blocks, uint32(i))
	}
	if partial && e.sequence.Tokens%m.cfg.BlockTokens > 0 {
		blocks = append(blocks, uint32(full))
	}
	return blocks
}

// stepBlocks returns the maximum number of blocks that one step fills.
func (m *Source) stepBlocks(s Sequence) int {
	if s.Left <= 1 {
		return 1
	}
	return m.cfg.StepTokens/m.cfg.BlockTokens + 1
}

func (m *Source) many(o *outgoing, e event) bool {
	return len(m.toSend(o, e, false)) > m.stepBlocks(e.sequence)
}

func (m *Source) manyGrown(o *outgoing, e event) bool {
	return m.many(o, e) && m.grown(o, e, m.toSend(o, e, false))
}

func (m *Source) inFlight(_ *outgoing, e event) bool { return e.sequence.InFlight }

func (m *Source) last(o *outgoing, e event) bool { return len(m.toSend(o, e, true)) > 0 }

func (m *Source) lastGrown(o *outgoing, e event) bool {
	blocks := m.toSend(o, e, true)
	return len(blocks) > 0 && m.grown(o, e, blocks)
}

// grown reports whether the last of the blocks lies beyond the capacity of the transfer.
func (m *Source) grown(o *outgoing, e event, blocks []uint32) bool {
	capacity := o.capacity
	if e.kind == Offered {
		capacity = e.capacity
	}
	return int(blocks[len(blocks)-1]) >= capacity
}

// accept records which blocks the target has.
func (m *Source) accept(o *outgoing, e event) {
	o.unsent, o.capacity = slices.Clone(e.missing), e.capacity
	o.report.Reused = o.accounted - len(o.unsent)
}

func (m *Source) copyOffered(o *outgoing, e event) {
	m.accept(o, e)
	m.copy(o, e)
}

func (m *Source) pauseOffered(o *outgoing, e event) {
	m.accept(o, e)
	m.pause(o, e)
}

func (m *Source) finishOffered(o *outgoing, e event) {
	m.accept(o, e)
	m.finish(o, e)
}

func (m *Source) commitOffered(o *outgoing, e event) {
	m.accept(o, e)
	m.commit(o, e)
}

// copy sends the missing full blocks while the sequence continues.
func (m *Source) copy(o *outgoing, e event) { m.send(o, e, m.toSend(o, e, false)) }

// pause waits for the end of the step that computes the sequence.
func (m *Source) pause(o *outgoing, e event) {
	m.emit(HoldSequence{o.ID})
	o.unsent = m.toSend(o, e, false)
	o.accounted = len(e.sequence.Hashes)
}

func (m *Source) finish(o *outgoing, e event) {
	m.emit(HoldSequence{o.ID})
	m.finishHeld(o, e)
}

// finishHeld sends the remaining blocks, which no step changes.
func (m *Source) finishHeld(o *outgoing, e event) {
	m.paused(o, e)
	m.send(o, e, m.toSend(o, e, true))
}

// paused records that no step computes the sequence from now on.
func (m *Source) paused(o *outgoing, e event) {
	o.pausedAt = e.now
	o.report.Blocks = (e.sequence.Tokens + m.cfg.BlockTokens - 1) / m.cfg.BlockTokens
}

// send sends blocks. They stay referenced until the send has ended, even if the sequence ends
// earlier.
func (m *Source) send(o *outgoing, e event, indices []uint32) {
	blocks := make([]int32, len(indices))
	for i, at := range indices {
		blocks[i] = e.sequence.Blocks[at]
	}
	o.unsent, o.accounted = nil, len(e.sequence.Hashes)
	o.report.Bytes += uint64(len(indices) * m.blockBytes)
	m.sends[o.Key] = blocks
	m.emit(RetainBlocks{blocks})
	m.emit(SendBlocks{o.Key, indices, blocks})
}

func (m *Source) commit(o *outgoing, e event) {
	m.emit(HoldSequence{o.ID})
	m.commitPaused(o, e)
}

func (m *Source) commitPaused(o *outgoing, e event) {
	m.paused(o, e)
	m.commitSent(o, e)
}

// commitSent asks the target to resume the sequence. From now on it may run there.
func (m *Source) commitSent(o *outgoing, e event) {
	o.sent = 1
	m.emit(SendResume{o.Key, o.command.To, e.sequence.Tokens, e.sequence.Hashes})
}
