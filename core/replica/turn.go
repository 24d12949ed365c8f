package replica

import (
	"cmp"
	"time"

	"troupe/core/turns"
)

// turn is the turn that the replica holds, or held last.
type turn struct {
	number uint64
	used   time.Duration // by its steps
}

// Granted reports that the device has granted a turn: for one step, or until it is recalled.
func (m *Machine) Granted(number uint64, open bool, now time.Time) []Effect {
	return m.on(event{kind: evGranted, number: number, open: open, now: now})
}

// Recalled reports that the device recalls an open turn.
func (m *Machine) Recalled(number uint64, now time.Time) []Effect {
	return m.on(event{kind: evRecalled, number: number, now: now})
}

// DeviceRestarted reports that the actor of the device has restarted, and knows of no turn.
func (m *Machine) DeviceRestarted(now time.Time) []Effect {
	return m.on(event{kind: evReset, now: now})
}

// mayStep reports whether the replica holds a turn.
func (m *Machine) mayStep() bool { return m.turnState >= OneStep }

// hasWork reports whether there is a sequence that a step may compute.
func (m *Machine) hasWork() bool { return m.batch.Running()+m.batch.Waiting() > 0 }

// turnEvent applies an event to the table of turns at once, so that a turn ends before the tokens of its
// step are sent.
func (m *Machine) turnEvent(kind Event, now time.Time) {
	m.turnCause = event{kind: kind, now: now}
	apply(m, turnTable, &m.turnState, &m.turnCause)
}

// needTurn asks for a turn, unless the replica has asked.
func (m *Machine) needTurn(e *event) { m.turnEvent(evNeedTurn, e.now) }

// endStep ends a turn after its step, unless isolated entries have yet to run in it.
func (m *Machine) endStep(now time.Time) {
	if m.step == Idle {
		m.turnEvent(evStepped, now)
	}
}

func (m *Machine) endsStep(e *event) { m.endStep(e.now) }

func (m *Machine) askTurn(e *event) { m.add(AskTurn{m.turnRequest(e.now)}) }

func (m *Machine) endTurn(*event) { m.add(EndTurn{Turn: m.turn.number, Used: m.turn.used}) }

func (m *Machine) endAndAsk(e *event) {
	next := m.turnRequest(e.now)
	m.add(EndTurn{m.turn.number, m.turn.used, &next})
}

// noTurn reports that the replica holds no turn.
func (m *Machine) noTurn(*event) { m.add(EndTurn{}) }

// returnTurn ends a turn that was not asked for.
func (m *Machine) returnTurn(e *event) { m.add(EndTurn{Turn: e.number}) }

func (m *Machine) takeTurn(e *event) {
	m.turn = turn{number: e.number}
	m.totals.Turns++
	m.add(Advance{})
}

// turnRequest describes the next step to the device.
func (m *Machine) turnRequest(now time.Time) turns.Request {
	d := m.batch.Demand()
	r := turns.Request{Class: turns.Class(d.Class), Estimate: cmp.Or(m.times.decode, m.times.prefill),
		Prompt: d.Prefill, Weight: m.cfg.Weight}
	if d.Prefill {
		r.Estimate = max(r.Estimate, m.times.prefill)
	}
	for id, q := range m.sequences {
		if due := m.due(id, q, r.Class); !due.IsZero() && (r.Deadline.IsZero() || due.Before(r.Deadline)) {
			r.Deadline = due
		}
	}
	return r
}

// due returns when the next token of a sequence of the class is due: as its class requires, and so that
// the rest of its output can follow at an even pace until the deadline of the request. Zero: never.
func (m *Machine) due(id string, q *sequence, of turns.Class) (due time.Time) {
	r, output, ok := m.batch.Request(id)
	if !ok || turns.Class(r.Class) != of {
		return time.Time{}
	}
	from, after := r.Arrived, time.Duration(0)
	first, each := turns.Due(of)
	if after = first; !q.last.IsZero() {
		from, after = q.last, each
	}
	if after > 0 {
		due = from.Add(after)
	}
	if left := r.MaxOutput - output; !r.Deadline.IsZero() && left > 0 {
		if even := from.Add(r.Deadline.Sub(from) / time.Duration(left)); due.IsZero() || even.Before(due) {
			due = even
		}
	}
	return due
}

// stepTimes has the moving averages of the durations of steps, with and without a prefill.
type stepTimes struct{ prefill, decode time.Duration }

// measureStep records the duration of the step that has ended. One that may have waited at a gate, one
// that hung and a canary say nothing about other steps.
func (m *Machine) measureStep(now time.Time) {
	took := now.Sub(m.current.began)
	m.turn.used += took
	m.totals.Use.Step(took, m.current.work, m.current.least)
	if m.Faulty() || isCanary(m.current.entries) {
		return
	}
	average := &m.times.decode
	for _, e := range m.current.entries {
		if e.Restoring {
			return
		}
		if len(e.Tokens) > 1 {
			average = &m.times.prefill
		}
	}
	if *average == 0 {
		*average = took
	}
	*average = (3**average + took) / 4
}
