package switching

import (
	"slices"
	"time"
)

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	m.apply(e)
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *Machine) apply(e event) {
	row := rows.Find(m.phase, e.kind, func(holds condition) bool { return holds(m, e) })
	switch {
	case row == nil:
		m.emit(Ignored{m.phase, e.kind, "unexpected"})
		return
	case row.Do == nil:
		m.emit(Ignored{m.phase, e.kind, row.When.Name})
		return
	}
	from := m.phase
	if row.To != same && row.To != from {
		m.leave(e.now)
		m.phase = row.To
	}
	row.Do(m, e)
	if m.phase != from {
		m.emit(Entered{m.current.ID, m.phase})
	}
	if m.progress {
		m.progress = false
		m.apply(event{kind: evProgress, now: e.now})
	}
	if m.phase == Serving {
		m.current = current{}
	}
}

// leave adds the time in the current phase to the metrics.
func (m *Machine) leave(now time.Time) {
	c := &m.current
	took := now.Sub(c.entered)
	switch m.phase {
	case Draining:
		c.metrics.Drain += took
	case Freeing:
		c.metrics.Free += took
	case Loading:
		c.metrics.Load += took
	case Capturing:
		c.metrics.Capture += took
	}
	c.entered = now
}

func (m *Machine) begin(e event) {
	m.number++
	m.current = current{Request: e.request, began: e.now, entered: e.now}
	m.current.serving, m.current.holding = slices.Clone(e.request.Leave), slices.Clone(e.request.Leave)
	m.emit(SetDeadline{m.number, e.request.Timeout})
	m.progress = true
}

func (m *Machine) refuse(e event) { m.emit(Refuse{e.request.ID, m.Status()}) }

func (m *Machine) drained(e event) {
	m.current.serving = without(m.current.serving, e.lease)
	m.progress = true
}

func (m *Machine) freed(e event) {
	m.current.holding = without(m.current.holding, e.lease)
	m.drained(e)
}

func (m *Machine) suspended(e event) {
	if c := &m.current; !c.told(e.lease) {
		c.suspended = append(c.suspended, e.lease)
	}
}

// onDevice is the source of weights that were on the device before the switch.
const onDevice = "device"

func (m *Machine) loaded(e event) {
	c := &m.current
	if !e.load.At.After(c.began) {
		e.load = Load{Source: onDevice}
	}
	c.loaded, c.metrics.Weights = true, e.load
	m.progress = true
}

func (m *Machine) serves(e event) {
	c := &m.current
	if !e.start.At.After(c.began) {
		e.start = Start{}
	}
	c.serves, c.metrics.Engine = true, e.start
	m.progress = true
}

func nothing(*Machine, event) {}

func (m *Machine) succeed(event) {
	c := &m.current
	m.emit(Ended{ID: c.ID, To: c.To, Phase: Serving, Metrics: c.metrics})
}

// fail ends the switch. Its metrics have the phases until then.
func (m *Machine) fail(e event) {
	c := &m.current
	m.emit(BringBack{c.ID, slices.Clone(c.Leave)})
	conflict := e.kind == evActivated || e.kind == evOverruled
	m.emit(Ended{ID: c.ID, To: c.To, Failure: e.why, Conflict: conflict, Phase: c.phase(), Metrics: c.metrics})
}

// phase returns the phase that the facts amount to.
func (c *current) phase() Phase {
	switch {
	case len(c.serving) > 0:
		return Draining
	case len(c.holding) > 0:
		return Freeing
	case !c.loaded:
		return Loading
	}
	return Capturing
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }
