package quarantine

import "troupe/core/table"

type (
	condition = func(*Machine, event) bool
	action    = func(*Machine, event)

	row   = table.Row[State, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

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
	hungTest   = guard{"hung, test due", (*Machine).hungTestDue}
	testDue    = guard{"test due", (*Machine).testDue}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("quarantine", []row{
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
	{working, Observed, hungTest, same, (*Machine).startTest, "self-test"},
	{lost, Observed, testDue, same, (*Machine).startTest, "self-test"},
	{all, Observed, always, same, (*Machine).keep, "—"},
})

// fire applies the first row that fits an event.
func (m *Machine) fire(e event) {
	r := rows.Find(m.state, e.kind, func(holds condition) bool { return holds(m, e) })
	if r == nil {
		m.emit(Ignored{m.state, e.kind, "unexpected"})
		return
	}
	r.Do(m, e)
	if r.To != same {
		m.state = r.To
	}
}

// testRow is a transition of the self-test. It has no condition and no action.
type testRow = table.Row[Test, testEvent, struct{}, struct{}]

// testRows is the table of the self-test in doc.go.
var testRows = table.New("quarantine self-test", []testRow{
	{From: []Test{Idle, Running}, On: wanted, To: Running},
	{From: []Test{Running}, On: ended, To: Idle},
})

// testEvent is an event of the self-test.
type testEvent uint8

const (
	wanted testEvent = iota
	ended
)

func (e testEvent) String() string { return [...]string{"wanted", "ended"}[e] }
