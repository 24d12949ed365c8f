package device

import "time"

const (
	yieldTimeout  = 5 * time.Second        // maximum wait for replicas to yield memory
	shrinkTimeout = 500 * time.Millisecond // maximum wait for the answer to one AskShrink
)

// keepReport stores a replica's report.
func (m *Memory) keepReport(h *holder, e event) {
	m.keepLevel(h, e)
	h.kv.replica, h.kv.report, h.kv.reportedAt = e.replica, e.report, e.now
}

// correct notifies a replica that has a wrong number of blocks, for example after a lost message.
func (m *Memory) correct(h *holder, e event) {
	m.keepReport(h, e)
	m.notify(h)
}

func (m *Memory) notify(h *holder) { m.emit(NotifyReplica{h.kv.replica, h.lease, h.model.Blocks}) }

// notifySender notifies a replica whose answer is stale.
func (m *Memory) notifySender(h *holder, e event) {
	m.emit(NotifyReplica{e.replica, h.lease, h.model.Blocks})
}

// choose asks the replica to yield blocks.
func (m *Memory) choose(h *holder, e event) {
	m.attempt++
	h.kv.attempt, h.kv.blocks, h.kv.deadline = m.attempt, e.blocks, e.until
	m.askAgain(h, e)
}

func (m *Memory) askAgain(h *holder, _ event) {
	m.emit(AskShrink{h.kv.replica, h.lease, h.kv.blocks, h.kv.attempt, shrinkTimeout})
}

// giveUp ends a shrink that failed. The replica is not asked again until it reports.
func (m *Memory) giveUp(h *holder, e event) {
	why := e.why
	if e.kind == TimedOut {
		why = "no answer within " + yieldTimeout.String()
	}
	m.emit(NotYielded{h.lease, why})
	h.kv.reportedAt = time.Time{}
	m.notify(h)
}

// shrink frees the blocks that the replica no longer uses.
func (m *Memory) shrink(h *holder, _ event) { m.emit(Resize{h.lease, h.kv.blocks, h.kv.attempt}) }

// grow leases pages for more blocks and allocates them.
func (m *Memory) grow(h *holder, e event) {
	m.attempt++
	h.kv.attempt, h.kv.blocks = m.attempt, e.blocks
	m.leaseKV(h, e.blocks)
	m.emit(Resize{h.lease, e.blocks, h.kv.attempt})
}

// leaseKV changes the KV lease to the given number of blocks.
func (m *Memory) leaseKV(h *holder, blocks int) {
	if _, short := m.ledger.Resize(h.lease, "kv", h.kvBytes(blocks)); short != nil {
		panic("device: " + m.cfg.Name + " holds more memory than it has: " + short.Error())
	}
}

// resized updates the ledger, and notifies the tier, the replica and the requesters.
func (m *Memory) resized(h *holder, e event) {
	h.model.Blocks = e.blocks
	m.endResize(h, e)
}

func (m *Memory) endResize(h *holder, e event) {
	m.leaseKV(h, h.model.Blocks)
	m.emit(NotifyTier{h.lease, h.model.Blocks})
	m.notify(h)
	for _, r := range h.kv.requests {
		m.answerLoad(h, r, true, 0)
	}
	h.kv.requests = nil
	m.settled(h, e)
}

// notResized ends a failed resize. The number of blocks is unchanged.
func (m *Memory) notResized(h *holder, e event) {
	m.emit(ResizeFailed{h.lease, e.failure.Detail})
	m.endResize(h, e)
	m.detectLoss(e.failure)
}

// fix marks memory that cannot be resized. The number of blocks is unchanged.
func (m *Memory) fix(h *holder, e event) {
	h.kv.fixed = true
	m.notResized(h, e)
}

// refuseJoined refuses the loads that wait for a resize, because the memory is freed instead.
func (m *Memory) refuseJoined(h *holder, _ event) {
	for _, r := range h.kv.requests {
		m.emit(RefuseLoad{r, Spec{Lease: h.lease}, beingFreed(h)})
	}
	h.kv.requests = nil
}
