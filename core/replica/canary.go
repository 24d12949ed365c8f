package replica

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
)

const (
	// canaryID is the request id of the canary. Clients' requests have longer ids.
	canaryID = "canary"
	// canaryTokens is the number of tokens in the prompt of a canary.
	canaryTokens = 8
)

// Canary is the answer that the first canary of loaded files gave.
type Canary struct {
	Revision string // digest of the files
	Token    uint32
	Known    bool
}

// canaryDue reports whether the replica is to send itself a canary: it has been idle for long enough, or a
// check waits for an idle replica or is overdue. A canary is a request for one token through the queue and the
// engine. It runs alone in its step, so its token depends on nothing else.
func (m *Machine) canaryDue(e *event) bool {
	if m.cfg.Watch.Canary == 0 || m.state != Serving || !m.MayPlan() {
		return false
	}
	if m.batch.Running()+m.batch.Waiting() > 0 {
		return m.checkOverdue(e.now)
	}
	return m.check.due ||
		e.now.Sub(m.lastStep) >= m.cfg.Watch.Canary && e.now.Sub(m.lastCanary) >= m.cfg.Watch.Canary
}

// sendCanary queues a canary. That of an overdue check is queued when its step is planned.
func (m *Machine) sendCanary(e *event) {
	m.watch(e)
	if m.batch.Running()+m.batch.Waiting() > 0 || m.submitCanary(e.now) {
		m.add(Advance{})
	}
}

// submitCanary queues a canary. Its prompt fills no block, so it leaves nothing in the cache. If the tokens
// of a canary are recorded, each canary computes the next of them.
func (m *Machine) submitCanary(now time.Time) bool {
	m.lastCanary = now
	var prompt []uint32
	if m.answers() > 0 {
		prompt = slices.Concat(m.model.Canary.Prompt, m.model.Canary.Tokens[:m.nextToken()])
	} else {
		prompt = make([]uint32, max(1, min(canaryTokens, m.cfg.BlockTokens-1)))
		for i := range prompt {
			prompt[i] = uint32(i + 1)
		}
	}
	_, refused := m.batch.Submit(batch.Request{ID: canaryID, Class: batch.Standard, Arrived: now,
		Waited: 1, // a full queue does not refuse it
		Root:   kv.Root(m.cfg.Model, "", []byte(canaryID)), Prompt: prompt, MaxOutput: 1, Client: canaryID})
	if refused == nil && m.answers() > 0 {
		m.canaryIndex = m.nextToken()
	}
	return refused == nil
}

// dropCanary drops a canary that waits for its turn: other sequences wait too, so that their step checks
// the engine as well, or the replica leaves service.
func (m *Machine) dropCanary() {
	if !m.InStep(canaryID) {
		m.batch.Drop(canaryID)
	}
}

// isCanary reports whether a step is that of a canary.
func isCanary(entries []batch.Entry) bool { return len(entries) == 1 && entries[0].ID == canaryID }

// hideCanary leaves the canary out of a status.
func (m *Machine) hideCanary(s *Status) {
	switch state, _ := m.batch.State(canaryID); state {
	case batch.Running:
		s.Running--
	case batch.Waiting, batch.Preempted:
		s.Waiting--
	}
}

// canaryDone compares the token of a canary with the one that is recorded, or with that of the first canary.
func (m *Machine) canaryDone(token uint32, finite bool, e *event) {
	first := m.canary.Known && m.canary.Revision == m.model.RevisionDigest
	switch {
	case !finite:
		m.canaryFailed("its logits are not finite", e.now)
	case m.answers() > 0:
		m.answered(token, e)
	case !first:
		m.canary = Canary{m.model.RevisionDigest, token, true}
		m.add(KeepCanary{m.canary})
	case token != m.canary.Token:
		m.canaryFailed(fmt.Sprintf("it gave token %d, and the first canary gave token %d", token, m.canary.Token),
			e.now)
	}
}

func (m *Machine) canaryFailed(why string, now time.Time) {
	m.totals.CanaryFailures++
	m.raise(event{kind: evCanaryWrong, id: why, now: now})
}

// corrupt takes the replica out of service for good.
func (m *Machine) corrupt(e *event) {
	m.beginFault(Fault{Detail: "corrupt: a canary failed: " + e.id, Since: e.now, Final: true, Corrupt: true})
	m.add(Suspect{m.cause.Detail})
	m.publish(e.now)
}
