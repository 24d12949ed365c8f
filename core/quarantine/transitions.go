package quarantine

import (
	"slices"
	"time"
)

// begin begins a quarantine.
func (m *Machine) begin(e event) {
	m.number++
	m.current = Quarantine{Cause: e.cause, Detail: e.detail, Since: e.now}
	m.lastTest = e.now
	m.emit(Began{e.cause, e.detail})
}

func (m *Machine) keep(event) {}

func (m *Machine) answer(e event) { m.emit(AnswerRelease{e.request}) }

// wait adds a request that waits for the self-test. It replaces an earlier copy of the same
// request.
func (m *Machine) wait(e event) {
	m.waiting = slices.DeleteFunc(m.waiting, func(r Request) bool { return r.ID == e.request.ID })
	m.waiting = append(m.waiting, e.request)
}

func (m *Machine) waitAndTest(e event) {
	m.wait(e)
	m.startTest(e)
}

// startTest starts the self-test unless it is already running.
func (m *Machine) startTest(e event) {
	was := m.test
	if m.shiftTest(wanted); was == Running {
		return
	}
	m.tested, m.lastTest = m.number, e.now
	m.emit(RunTest{})
}

// shiftTest applies an event to the state of the self-test. It returns false if the event has no
// effect.
func (m *Machine) shiftTest(e testEvent) bool {
	r := testRows.Find(m.test, e, nil)
	if r != nil {
		m.test = r.To
	}
	return r != nil
}

// testDue reports whether a lost and empty device is to be tested now: because of a request, or at
// intervals once it responds.
func (m *Machine) testDue(e event) bool {
	return len(m.waiting) > 0 || m.last.Lost == "" && e.now.Sub(m.lastTest) >= testInterval
}

// testsEarlier reports whether the self-test that ended had started before the current quarantine,
// and so may have missed the new fault.
func (m *Machine) testsEarlier(event) bool { return m.tested != m.number }

func (m *Machine) releaseUntested(e event) {
	m.emit(Ended{"by operator request"})
	m.wait(e)
	m.answerAll()
}

func (m *Machine) releaseTested(event) {
	m.emit(Ended{"self-test passed"})
	m.answerAll()
}

func (m *Machine) refuseAgain(event) {
	m.refuseAll("quarantined again during the self-test: " + m.current.Detail)
}

func (m *Machine) refuseFailed(e event) {
	m.current.SelfTest = "failed: " + e.detail
	m.emit(TestFailed{e.detail})
	m.refuseAll("self-test failed: " + e.detail)
}

func (m *Machine) unloadAll(event) { m.emit(UnloadAll{}) }

func (m *Machine) answerAll() {
	for _, r := range m.waiting {
		m.emit(AnswerRelease{r})
	}
	m.waiting = nil
}

func (m *Machine) refuseAll(why string) {
	for _, r := range m.waiting {
		m.emit(RefuseRelease{r, why})
	}
	m.waiting = nil
}

// note records an unusual observation.
func (m *Machine) note(detail string, now time.Time) {
	notes := append(slices.Clone(m.notes), Note{now, detail})
	m.notes = notes[max(0, len(notes)-maxNotes):]
	m.emit(Noted{detail})
}
