package router

import (
	"time"

	"troupe/core/route"
	"troupe/core/wake"
)

// queueRetryAfter is the RetryAfter of a request that has no place to wait.
const queueRetryAfter = time.Second

// settle answers the waiting requests that need not wait any longer, in order. It is called after
// each event that may change what the router answers.
func (m *Machine) settle(now time.Time) []Effect {
	var answered []string
	for _, model := range m.waiting.Models() {
		for _, id := range m.waiting.Waiting(model) {
			r := m.requests[id]
			var d route.Decision // without a replica, only a refusal needs one; see answer
			if t := m.models[model]; t != nil && t.serves(r) {
				d = m.decide(r)
			}
			if m.answer(r, d, now) {
				answered = append(answered, id)
			}
		}
	}
	if len(answered) > 0 {
		m.queue(m.waiting.Answered(now, answered...), now)
	}
	return m.take()
}

// CancelRoute handles the end of a session whose request may wait.
func (m *Machine) CancelRoute(id string, now time.Time) []Effect {
	m.queue(m.waiting.Withdraw(id, now), now)
	delete(m.requests, id)
	return m.take()
}

// Waiting returns the number of requests that wait here, by model.
func (m *Machine) Waiting() map[string]int {
	all := make(map[string]int)
	for _, model := range m.waiting.Models() {
		all[model] = m.waiting.Len(model)
	}
	return all
}

// hold notes that an operator has set a level while requests wait. They do not undo it.
func (m *Machine) hold(model string) {
	for _, id := range m.waiting.Waiting(model) {
		r := m.requests[id]
		r.held = true
		m.requests[id] = r
	}
}

// wakers returns the number of requests that may wake a model, and the age of the oldest of them.
func (m *Machine) wakers(model string, now time.Time) (n int, oldest time.Duration) {
	for _, id := range m.waiting.Waiting(model) {
		if r := m.requests[id]; !r.held || m.dormant(m.stored[model]) == "" {
			n++
			oldest = max(oldest, now.Sub(r.Arrived))
		}
	}
	return n, oldest
}

// queue carries out the effects of the queue.
func (m *Machine) queue(effects []wake.Effect, now time.Time) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case wake.Confirm:
			m.emit(Answer{To: m.requests[e.ID].Session, ID: e.ID})
		case wake.Refuse:
			r, why := m.requests[e.Request.ID], noPlace(e.Request, e.Why)
			m.log.add(r.ID, Entry{Time: now, Refusal: why, Cause: r.Cause})
			m.emit(Answer{To: r.Session, ID: r.ID, Refusal: why})
			delete(m.requests, r.ID)
		case wake.Drop:
			delete(m.requests, e.ID)
		case wake.Wake:
			if to, ok := m.groups[m.statuses[e.Model].Node]; ok {
				wakes, oldest := m.wakers(e.Model, now)
				m.emit(WakeModel{to, e.Model, e.Waiting, wakes, oldest, m.stored[e.Model].At})
			}
		}
	}
}
