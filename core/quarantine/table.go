package quarantine

import "slices"

// row is one transition. In any state of from, if event on arrives and guard when holds, the
// machine runs do and enters state to.
type row struct {
	from []State
	on   Event
	when guard
	to   State
	do   func(*Machine, event)
	does string // describes do in the table of doc.go
}

// guard is a condition of a transition. The zero value always holds.
type guard struct {
	name  string
	holds func(*Machine, event) bool
}

// same, as the next state of a row, leaves the state unchanged.
const same State = 255

var (
	healthy  = []State{Healthy}
	working  = []State{Quarantined}
	lost     = []State{Lost}
	excluded = []State{Quarantined, Lost}
	all      = []State{Healthy, Quarantined, Lost}
)

var (
	always     = guard{}
	deviceLost = guard{"device lost", func(_ *Machine, e event) bool { return e.isLoss() }}
	untested   = guard{"untested", func(_ *Machine, e event) bool { return e.untested }}
	inUse      = guard{"in use", func(_ *Machine, e event) bool { return !e.empty }}
	earlier    = guard{"begun before this quarantine", (*Machine).testsEarlier}
	testDue    = guard{"test due", (*Machine).testDue}
)

// table is the transition table of doc.go. The first row that fits applies.
var table = []row{
	{healthy, Fault, deviceLost, Lost, (*Machine).begin, "begin"},
	{healthy, Fault, always, Quarantined, (*Machine).begin, "begin"},
	{working, Fault, deviceLost, Lost, (*Machine).begin, "begin a new one"},
	{excluded, Fault, always, same, (*Machine).keep, "keep the first cause"},

	{healthy, Release, always, same, (*Machine).answer, "answer"},
	{excluded, Release, untested, Healthy, (*Machine).releaseUntested, "end; answer all"},
	{working, Release, always, same, (*Machine).waitAndTest, "wait for a self-test"},
	{lost, Release, inUse, same, (*Machine).wait, "wait until it is empty"},
	{lost, Release, always, same, (*Machine).waitAndTest, "wait for a self-test"},

	{healthy, Passed, always, same, (*Machine).keep, "—"},
	{excluded, Passed, earlier, same, (*Machine).refuseAgain, "refuse all"},
	{excluded, Passed, always, Healthy, (*Machine).releaseTested, "end; answer all"},
	{healthy, Failed, always, same, (*Machine).keep, "—"},
	{excluded, Failed, earlier, same, (*Machine).refuseAgain, "refuse all"},
	{excluded, Failed, always, same, (*Machine).refuseFailed, "note the result; refuse all"},

	{lost, Observed, inUse, same, (*Machine).unloadAll, "unload all"},
	{lost, Observed, testDue, same, (*Machine).startTest, "self-test"},
	{all, Observed, always, same, (*Machine).keep, "—"},
}

// fire applies the first row that fits an event.
func (m *Machine) fire(e event) {
	r := m.find(e)
	if r == nil {
		m.emit(Ignored{m.state, e.kind, "unexpected"})
		return
	}
	r.do(m, e)
	if r.to != same {
		m.state = r.to
	}
}

func (m *Machine) find(e event) *row {
	for i := range table {
		r := &table[i]
		if r.on == e.kind && slices.Contains(r.from, m.state) && (r.when.holds == nil || r.when.holds(m, e)) {
			return r
		}
	}
	return nil
}

// tests maps the state of the self-test and an event to the next state. An event without an entry
// has no effect.
var tests = map[Test]map[testEvent]Test{
	Idle:    {wanted: Running},
	Running: {wanted: Running, ended: Idle},
}

// testEvent is an event of the self-test.
type testEvent uint8

const (
	wanted testEvent = iota
	ended
)

func (e testEvent) String() string { return [...]string{"wanted", "ended"}[e] }
