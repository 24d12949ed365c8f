package replica

import "time"

// kvReportEvery is the time between two reports to the device. Unchanged values are repeated, since
// the GPU actor may have lost them in a crash.
const kvReportEvery = time.Second

// Shrink handles a command of the device to keep only the given number of blocks.
func (m *Machine) Shrink(lease string, blocks int, attempt uint64) []Effect {
	return m.on(event{kind: evShrink, id: lease, n: blocks, number: attempt})
}

// Release continues a shrink between two steps.
func (m *Machine) Release() []Effect {
	if m.memory != Shrinking {
		return nil
	}
	return m.on(event{kind: evRelease})
}

// Grow reports the new number of blocks and ends a shrink.
func (m *Machine) Grow(lease string, blocks int) []Effect {
	return m.on(event{kind: evGrow, id: lease, n: blocks})
}

func (m *Machine) refuseShrink(e *event) {
	m.add(KVShrunk{e.number, &Refusal{Reason: NoMemory, Detail: m.title() + " needs more KV blocks"}})
}

func (m *Machine) startShrink(e *event) {
	m.shrink = shrink{e.n, e.number}
	m.pool.Resize(e.n)
	m.add(Advance{})
}

// release preempts the sequences whose blocks the device takes back. Copies and migrations may
// still read these blocks.
func (m *Machine) release(*event) {
	m.preempted(m.batch.PreemptBeyond(m.shrink.blocks))
	if reading, _ := m.pool.Draining(); reading == 0 {
		m.raise(event{kind: evUnread})
	}
}

func (m *Machine) shrinkDone(e *event) {
	m.turnEvent(evUnused, e.now)
	m.publishBlocks()
	m.answerShrink(e)
}

func (m *Machine) answerShrink(*event) { m.add(KVShrunk{Attempt: m.shrink.attempt}) }

func (m *Machine) grow(e *event) {
	had := m.pool.Stats().Blocks
	if e.n < had {
		panic("replica: GrowKV takes away KV blocks in use")
	}
	m.pool.Resize(e.n)
	m.announcer.Grow(e.n * fingerprintBytes)
	m.context = max(m.context, m.contextLimit(e.n))
	m.batch.RaiseContextLimit(m.context)
	m.add(Resized{had, e.n})
	m.reportSoon()
	m.add(Advance{})
}

// sendKVReport reports on the KV memory now.
func (m *Machine) sendKVReport() {
	m.add(ReportKV{Blocks: m.pool.Stats().Blocks, Least: m.minBlocks(), Wanted: m.wantedBlocks(),
		Standby: m.yieldsAll(), StandbyWanted: m.standby, LastUsed: m.lastStep, Use: m.totals.Use,
		Serving: m.state == Serving, Engine: m.engine, Verify: m.check.passed})
}

func (m *Machine) reportKV(e *event) {
	m.sendKVReport()
	if m.memory == Shrunk {
		m.answerShrink(e)
	}
	m.turnEvent(evRepeat, e.now)
	m.add(SyncKVPins{}, SetTimer{KVTimer, kvReportEvery})
}

// minBlocks returns the number of blocks for one sequence of full length, or the number that the
// operator configured if that is larger and the replica is not on standby.
func (m *Machine) minBlocks() int {
	one := (m.context + m.cfg.BlockTokens - 1) / m.cfg.BlockTokens
	if m.yieldsAll() {
		return one
	}
	return max(one, m.cfg.LeastBlocks)
}

// yieldsAll reports whether the device may take back all KV memory beyond the minimum: the replica is
// on standby, or will be once it has started.
func (m *Machine) yieldsAll() bool { return m.state == Standby || m.standby && m.state < Serving }

// contextLimit returns the maximum number of tokens of a sequence with the given number of blocks.
func (m *Machine) contextLimit(blocks int) int {
	return min(m.model.ContextTokens, blocks*m.cfg.BlockTokens)
}

// wantedBlocks returns the number of blocks that the waiting sequences could use at full length, if
// they wait for blocks rather than for room in the batch.
func (m *Machine) wantedBlocks() int {
	one := m.minBlocks()
	if m.cfg.LeastBlocks > 0 || m.pool.Free() >= one {
		return 0
	}
	return max(0, min(m.batch.Waiting(), m.cfg.MaxSequences-m.batch.Running())) * one
}
