package offload

// The actions of the table. Each runs before the machine enters the next state.

// observe records the number of steps and allocations so far, and reports the steps if a report is
// due.
func (m *Machine) observe(e event) {
	m.burst.Observe(e.tick.Steps, e.tick.Allocations)
	m.limit = max(1, e.tick.AllBlocks/burstShare)
	m.steps = e.tick.Steps
	if m.idleDue = m.steps-m.reported >= stepsPerReport; m.idleDue {
		m.emit(ReportSteps{int(m.steps - m.reported)})
		m.reported = m.steps
	}
}

func (m *Machine) nothing(event) {}

func (m *Machine) selectDue(e event) {
	m.observe(e)
	m.emit(Select{Watermark: m.burst.Watermark(m.cfg.Watermark, e.tick.Blocks), Burst: m.limit})
}

func (m *Machine) selectIdle(event) {
	m.emit(Select{Idle: true, IdleSteps: m.cfg.IdleSteps, Burst: m.limit})
}

func (m *Machine) selectUnused(event) { m.emit(Select{Idle: true, Burst: m.limit}) }

func (m *Machine) selectUsed(event) { m.emit(Select{Burst: m.limit}) }

func (m *Machine) copy(e event) {
	m.copies++
	m.copying = e.blocks
	m.emit(Copy{m.copies, e.blocks})
}

// finish ends a copy and records the number of blocks that the tier has now. The pool evicts first
// the block that is finished last.
func (m *Machine) finish(e event) {
	all, stored := make([]Finished, 0, len(m.copying)), 0
	for i := len(m.copying) - 1; i >= 0; i-- {
		f := Finished{m.copying[i].Block, i < len(e.stored) && e.stored[i]}
		if all = append(all, f); f.Stored {
			stored++
		}
	}
	m.copying = nil
	m.stored += uint64(stored)
	if m.command != nil {
		m.command.blocks += stored
	}
	m.emit(Finish{all})
}

func (m *Machine) succeed(e event) {
	m.finish(e)
	m.emit(Advance{})
}

func (m *Machine) pause(e event) {
	m.finish(e)
	m.emit(RetryAfter{retryDelay}) // an immediate retry would fail the same way
	if e.fault == "" {
		e.fault = "tier " + m.cfg.Tier + " is full of blocks that are pinned or in use"
	}
	m.answerCommand(e)
	m.emit(Advance{})
}

func (m *Machine) advance(event) { m.emit(Advance{}) }

// answerCommand answers the OffloadBlocks command in progress, if there is one.
func (m *Machine) answerCommand(e event) {
	if m.command == nil {
		return
	}
	for _, r := range m.command.requests {
		m.emit(Answer{r.from, r.id, m.command.blocks, e.now.Sub(m.command.began), e.fault})
	}
	m.command = nil
}

func (m *Machine) noteCommand(e event) {
	if m.command == nil {
		m.command = &command{began: e.now}
	}
	for i, r := range m.command.requests {
		if r.id == e.id {
			m.command.requests[i].from = e.from
			return
		}
	}
	m.command.requests = append(m.command.requests, e.request)
	m.emit(Advance{})
}

func (m *Machine) prefetch(e event) { m.emit(Prefetch{To: e.from, ID: e.id}) }

func (m *Machine) flush(e event) { m.emit(Flush{e.from, e.id}) }

func (m *Machine) refuseNotReady(e event) {
	m.emit(Refuse{e.from, e.id, NotReady, "replica " + m.cfg.Replica + " is not serving yet", notReadyRetry})
}

func (m *Machine) refuseUnsupported(e event) {
	why := "node " + m.cfg.Node + " has no KV tier below HBM that fits its blocks; " +
		"start it with --kv-dram or --kv-nvme, or with a larger size"
	if m.cfg.Remote && !m.cfg.Digest {
		why = "replica " + m.cfg.Replica + " cannot exchange blocks with tiers: the files of its model have no digest"
	}
	m.emit(Refuse{e.from, e.id, Unsupported, why, 0})
}
