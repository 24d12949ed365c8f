package planner

import (
	"slices"
	"time"
)

// keep adds a question, which the plan of a later round answers. Beyond maxAsks it drops the oldest one without an
// answer.
func (m *Machine) keep(e event) {
	m.asks = append(m.asks, ask{e.ask, e.Time})
	first := m.asks[0]
	m.forget(func(a ask) bool { return len(m.asks) > maxAsks && a == first })
}

func (m *Machine) askNow(e event) {
	m.keep(e)
	m.observe(e)
}

// deny answers all questions without a plan, since this node does not lead.
func (m *Machine) deny(e event) {
	if e.kind == Asked {
		m.keep(e)
	}
	m.answer(nil, e.Time)
}

// expire drops the questions that have waited for askTimeout.
func (m *Machine) expire(now time.Time) {
	m.forget(func(a ask) bool { return now.Sub(a.at) > askTimeout })
}

// forget forgets the questions for which a condition holds.
func (m *Machine) forget(which func(ask) bool) {
	var forgotten []Ask
	for _, a := range m.asks {
		if which(a) {
			forgotten = append(forgotten, a.Ask)
		}
	}
	if len(forgotten) > 0 {
		m.asks = slices.DeleteFunc(m.asks, which)
		m.emit(Forget{forgotten})
	}
}

// answer answers the questions that a plan can answer. One about a model without verdicts waits for the next plan.
func (m *Machine) answer(r *Record, now time.Time) {
	m.expire(now)
	var answered []Ask
	m.asks = slices.DeleteFunc(m.asks, func(a ask) bool {
		_, judged := r.verdicts(a.Model)
		if r != nil && a.Model != "" && !judged {
			return false
		}
		answered = append(answered, a.Ask)
		return true
	})
	if len(answered) > 0 {
		m.emit(Answer{answered, r})
	}
}

// verdicts returns the verdicts for a model, and whether it was asked for.
func (r *Record) verdicts(model string) (any, bool) {
	if r == nil {
		return nil, false
	}
	v, ok := r.Verdicts[model]
	return v, ok
}
