package quarantine

import (
	"time"

	"troupe/core/health"
	"troupe/core/table"
)

// testTimeout is how long the self-test of a suspected device may take. A sound device takes less
// than a second; one that hangs never ends it.
const testTimeout = 20 * time.Second

// Suspicion tells whether the work of a replica makes a device suspicious.
type Suspicion uint8

// States of the suspicion.
const (
	Trusted   Suspicion = iota
	Suspected           // a step hung on it, or gave a wrong answer; a self-test decides
)

func (s Suspicion) String() string { return [...]string{"trusted", "suspected"}[s] }

// Suspect reports that a step hung on the device, or gave a wrong answer. The device is tested, and
// quarantined if it fails.
func (m *Machine) Suspect(detail string, now time.Time) []Effect {
	m.doubt(event{kind: Suspicious, detail: detail, now: now})
	return m.take()
}

// suspicionRow is a transition of the suspicion.
type suspicionRow = table.Row[Suspicion, Event, condition, action]

var (
	trusted    = []Suspicion{Trusted}
	suspected  = []Suspicion{Suspected}
	suspicions = []Suspicion{Trusted, Suspected}

	isExcluded  = guard{"quarantined", func(m *Machine, _ event) bool { return m.state != Healthy }}
	noTest      = guard{"no self-test runs", func(m *Machine, _ event) bool { return m.test == Idle }}
	testOverdue = guard{"the self-test hangs", (*Machine).testOverdue}
)

// suspicionRows is the table of the suspicion in doc.go.
var suspicionRows = table.New("quarantine suspicion", []suspicionRow{
	{trusted, Suspicious, isExcluded, same, (*Machine).keep, "—"},
	{trusted, Suspicious, always, Suspected, (*Machine).suspect, "self-test"},
	{suspected, Suspicious, always, same, (*Machine).keep, "—"},
	{suspected, Passed, always, Trusted, (*Machine).clear, "note it"},
	{suspected, Failed, always, Trusted, (*Machine).testFailed, "quarantine"},
	{suspected, Observed, isExcluded, Trusted, (*Machine).keep, "—"},
	{suspected, Observed, noTest, same, (*Machine).startTest, "self-test"},
	{suspected, Observed, testOverdue, Trusted, (*Machine).testHung, "quarantine"},
	{suspicions, Passed, always, same, (*Machine).keep, "—"},
	{suspicions, Failed, always, same, (*Machine).keep, "—"},
	{suspicions, Observed, always, same, (*Machine).keep, "—"},
})

// doubt applies the first row of the suspicion that fits an event.
func (m *Machine) doubt(e event) {
	r := suspicionRows.Find(m.suspicion, e.kind, func(holds condition) bool { return holds(m, e) })
	if r.To != same {
		m.suspicion = r.To
	}
	r.Do(m, e)
}

func (m *Machine) suspect(e event) {
	m.suspectedFor = e.detail
	m.note("suspected, and tested: "+e.detail, e.now)
	m.startTest(e)
}

func (m *Machine) clear(e event) { m.note("self-test passed after "+m.suspectedFor, e.now) }

func (m *Machine) testFailed(e event) { m.quarantineHung("the self-test failed: "+e.detail, e) }

func (m *Machine) testHung(e event) {
	m.quarantineHung("the self-test has not ended within "+testTimeout.String(), e)
}

func (m *Machine) quarantineHung(result string, e event) {
	m.fire(event{kind: Fault, cause: health.Hung, detail: m.suspectedFor + "; " + result, now: e.now})
}

func (m *Machine) testOverdue(e event) bool { return e.now.Sub(m.lastTest) >= testTimeout }

// hungTestDue reports whether a device that hung is to be tested again.
func (m *Machine) hungTestDue(e event) bool {
	return m.current.Cause == health.Hung && e.now.Sub(m.lastTest) >= testInterval
}
