package replica

import "troupe/core/table"

var (
	anyFault = []FaultState{Unwatched, Sound, Hung, GivenUp, Corrupt}
	late     = []FaultState{Hung, GivenUp}
	watching = []FaultState{Sound, Hung, GivenUp, Corrupt}
	unsound  = []FaultState{Unwatched, Corrupt}
)

var (
	watchOn = guard{"the watch is on", func(m *Machine, _ *event) bool {
		return m.cfg.Watch.StepTimeout > 0 || m.cfg.Watch.Canary > 0
	}}
	stepLate  = guard{"the step is late", (*Machine).stepLate}
	canaryDue = guard{"a canary is due", (*Machine).canaryDue}
	hungLong  = guard{"hung for long", (*Machine).hungLong}
	isFaulty  = guard{"faulty", func(m *Machine, _ *event) bool { return m.Faulty() }}
)

// faultTable is the table of faults of doc.go.
var faultTable = table.New("replica faults", []row[FaultState]{
	{[]FaultState{Unwatched}, evMapped, watchOn, Sound, (*Machine).watch, "set the timer"},
	{[]FaultState{Unwatched}, evMapped, always, same, nothing, "—"},
	{[]FaultState{Sound}, evWatch, stepLate, Hung, (*Machine).hang, "interrupt all; publish"},
	{[]FaultState{Sound}, evWatch, canaryDue, same, (*Machine).sendCanary, "submit a canary; advance"},
	{[]FaultState{Hung}, evWatch, hungLong, GivenUp, (*Machine).giveUp, "suspect; publish"},
	{watching, evWatch, always, same, (*Machine).watch, "set the timer"},
	{[]FaultState{Sound}, evStepOver, always, same, (*Machine).learn, "learn its time"},
	{late, evStepOver, always, Sound, (*Machine).recover, "learn its time; publish"},
	{unsound, evStepOver, always, same, nothing, "—"},
	{[]FaultState{Sound}, evCanaryWrong, always, Corrupt, (*Machine).corrupt,
		"interrupt all; suspect; publish"},
	{anyFault, evHalt, always, Unwatched, nothing, "—"},
})
