package migrate

import "slices"

// moved ends a migration: the sequence runs at the target, and its session is redirected.
func (m *Source) moved(o *outgoing, e event) {
	o.report.Moved, o.report.Pause = true, e.now.Sub(o.pausedAt)
	c := o.command
	m.emit(Redirect{o.ID, c.Target, c.To, e.incarnation, e.node, c.Cause, o.report})
	m.emit(DropSequence{o.ID})
	if len(m.handedOver) == maxHandedOver {
		m.handedOver = slices.Delete(m.handedOver, 0, 1)
	}
	m.handedOver = append(m.handedOver, o.Attempt)
	m.end(o, e)
}

// hasMoved reports whether this attempt moved the sequence to the target. A late answer to its
// offer must not release the sequence there.
func (m *Source) hasMoved(o *outgoing, _ event) bool { return slices.Contains(m.handedOver, o.Attempt) }

// abort ends a migration. The sequence continues here if it still exists.
func (m *Source) abort(o *outgoing, e event, why string) {
	o.report.Detail = why
	m.emit(ResumeSequence{o.ID})
	m.emit(SendAbandon{o.Key, o.command.To})
	m.end(o, e)
}

// end ends a migration and starts the next one.
func (m *Source) end(o *outgoing, e event) {
	o.report.Elapsed = e.now.Sub(o.startedAt)
	if m.sends[o.Key] != nil {
		m.emit(CancelSend{o.Key})
	}
	m.emit(End{o.Key, o.command.Target, o.report})
	m.forget(o)
	o.command.active--
	o.command.reports = append(o.command.reports, o.report)
	m.slotFreed = true
}

// forget removes a migration and stops watching a replica that takes part in no other one.
func (m *Source) forget(o *outgoing) {
	delete(m.outgoing, o.ID)
	if !m.Uses(o.command.To) {
		m.emit(Unwatch{o.command.To})
	}
}

// abandonLate releases the reservation that the target made for an attempt that has ended.
func (m *Source) abandonLate(o *outgoing, e event) {
	if e.from != (Actor{}) {
		m.emit(SendAbandon{o.Key, e.from})
	}
}

// stopped ends a migration without a report.
func (m *Source) stopped(o *outgoing, _ event) {
	m.emit(SendAbandon{o.Key, o.command.To})
	m.forget(o)
}

func (m *Source) giveUp(o *outgoing, e event) {
	m.abort(o, e, "replica "+o.command.Target+" does not answer")
}

func (m *Source) pauseExpired(o *outgoing, e event) {
	m.abort(o, e, "its last blocks were not sent within "+pauseTimeout.String())
}

func (m *Source) expired(o *outgoing, e event) {
	m.abort(o, e, "its blocks were not sent within "+migrateTimeout.String())
}

func (m *Source) targetLost(o *outgoing, e event) {
	m.abort(o, e, "replica "+o.command.Target+" has stopped")
}

func (m *Source) planeLost(o *outgoing, e event) {
	m.abort(o, e, "data plane: its transfers were restarted")
}

func (m *Source) outgrow(o *outgoing, e event) {
	m.abort(o, e, "it grew beyond the blocks of the transfer")
}

func (m *Source) sendFailed(o *outgoing, e event) { m.abort(o, e, "data plane: "+e.detail) }

func (m *Source) refused(o *outgoing, e event) { m.abort(o, e, e.detail) }

func (m *Source) cancelled(o *outgoing, e event) { m.abort(o, e, e.detail) }
