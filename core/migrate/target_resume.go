package migrate

import "time"

func (m *Target) hear(in *incoming, e event) { in.heard = e.now }

// closeSink closes the transfer before its blocks are used.
func (m *Target) closeSink(in *incoming, e event) {
	m.hear(in, e)
	in.tokens = e.tokens
	m.emit(KeepResume{in.Key})
	m.emit(CloseSink{in.Key, (e.tokens + m.shape.BlockTokens - 1) / m.shape.BlockTokens})
}

func (m *Target) adoptQueued(in *incoming, e event) {
	m.hear(in, e)
	m.emit(KeepResume{in.Key})
	m.emit(Adopt{in.Key})
}

func (m *Target) adopt(in *incoming, _ event) { m.emit(Adopt{in.Key}) }

func (m *Target) notServing(_ *incoming, e event) bool { return e.own.Mode != Serving }

func (m *Target) incomplete(_ *incoming, e event) bool { return !e.complete }

// answer answers ResumeSequence. Once given, an answer does not change.
func (m *Target) answer(in *incoming, e event) {
	if e.kind == NotAdopted {
		in.refusal = &e.refusal
		m.emit(ReleaseAdapter{in.Key})
	}
	m.emit(AnswerResume{in.Key, in.Source, in.refusal})
}

func (m *Target) answerAgain(in *incoming, e event) {
	m.hear(in, e)
	m.emit(AnswerResume{in.Key, in.Source, in.refusal})
}

func (m *Target) refuseDraining(in *incoming, e event) {
	m.refuseResume(in, e, Refusal{Busy, "replica " + m.name + " is draining", retrySoon})
}

func (m *Target) refuseIncomplete(in *incoming, e event) {
	m.refuseResume(in, e, Refusal{Conflict, "not all blocks have arrived", 0})
}

func (m *Target) refuseResume(in *incoming, e event, why Refusal) {
	in.refusal = &why
	if in.Tokens > 0 {
		m.emit(Unreserve{in.Key})
	} else {
		m.hear(in, e)
		m.emit(ReleaseAdapter{in.Key})
	}
	m.emit(AnswerResume{in.Key, in.Source, in.refusal})
}

func (m *Target) refuseUnknown(in *incoming, _ event) {
	m.emit(AnswerResume{in.Key, in.Source,
		&Refusal{NotFound, "replica " + m.name + " has no reservation for the sequence", 0}})
}

// silence returns the time since the last message or block.
func (in *incoming) silence(e event) time.Duration {
	if e.heard.After(in.heard) {
		return e.now.Sub(e.heard)
	}
	return e.now.Sub(in.heard)
}

func (m *Target) audible(in *incoming, e event) bool { return in.silence(e) < incomingTimeout }

func (m *Target) silent(in *incoming, e event) bool { return !m.audible(in, e) }

// ask asks whether blocks have arrived since the last message. The answer may come too late, or never,
// if the source asks to resume the sequence meanwhile.
func (m *Target) ask(in *incoming, _ event) {
	m.emit(AskSink{in.Key})
	m.emit(SetExpiry{in.Key, askInterval})
}

func (m *Target) heardBlock(in *incoming, e event) {
	if e.heard.After(in.heard) {
		in.heard = e.heard
	}
}

// setExpiry sets the timer to the time at which the attempt ends unless the source sends something.
func (m *Target) setExpiry(in *incoming, e event) {
	left := incomingTimeout - in.silence(e)
	if left <= 0 {
		left = incomingTimeout
	}
	m.emit(SetExpiry{in.Key, left})
}

// release closes the transfer. Its blocks are freed once no write is in progress.
func (m *Target) release(in *incoming, e event) {
	m.emit(CloseSink{in.Key, 0})
	m.unwatch(in, e)
}

// free frees the blocks of an attempt that has ended.
func (m *Target) free(in *incoming, e event) {
	m.emit(Unreserve{in.Key})
	m.forget(in, e)
	m.freed = true
}

func (m *Target) stillHere(_ *incoming, e event) bool { return e.here }

// giveBack drops a sequence that the source has taken back.
func (m *Target) giveBack(in *incoming, e event) {
	m.emit(CancelMigration{in.ID, "the source took it back"})
	m.emit(DropSequence{in.ID})
	m.forget(in, e)
}

// forget removes an attempt that has no reservation.
func (m *Target) forget(in *incoming, e event) {
	m.unqueue(in)
	if m.incoming[in.ID] == in {
		delete(m.incoming, in.ID)
	}
	m.emit(Forget{in.Key})
	m.unwatch(in, e)
}

// unwatch stops watching a source that has no other attempt here.
func (m *Target) unwatch(in *incoming, _ event) {
	if !m.Uses(in.Source) {
		m.emit(Unwatch{in.Source})
	}
}
