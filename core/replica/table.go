package replica

import (
	"fmt"
	"slices"
)

// state is a state of one of the tables.
type state interface {
	comparable
	fmt.Stringer
}

// row is one transition. In any state of from, if event on arrives and guard when holds, the
// machine enters state to and runs do.
type row[S state] struct {
	from []S
	on   Event
	when guard
	to   S
	do   func(*Machine, *event) // nil: ignore the event and report the guard as the reason
	does string                 // describes do in the table of doc.go
}

// guard is a condition of a transition. The zero value always holds.
type guard struct {
	name  string
	holds func(*Machine, *event) bool
}

// The same constants, as the next state of a row, leave the state unchanged.
const (
	sameState  State       = 255
	sameStep   StepState   = 255
	sameMemory MemoryState = 255
	sameLease  PoolState   = 255
)

var (
	anyState  = []State{Created, Loading, Adopting, Starting, Confirming, Serving, Draining, Failed, Stopping}
	serviced  = []State{Confirming, Serving, Draining}
	anyStep   = []StepState{Halted, Idle, Running, Repeating, Isolating, Alone}
	inFlight  = []StepState{Running, Repeating, Alone}
	anyMemory = []MemoryState{Unmapped, Whole, Shrinking, Shrunk}
	mapped    = []MemoryState{Whole, Shrinking, Shrunk}
	anyLease  = []PoolState{NoAdapters, Unleased, Leasing, PoolStarting, PoolReady}
)

var (
	always      = guard{}
	unconfirmed = guard{"not confirmed", func(m *Machine, _ *event) bool { return !m.revisionConfirmed() }}
	confirmed   = guard{"confirmed", func(m *Machine, _ *event) bool { return m.revisionConfirmed() }}
	confirms    = guard{"of these files", func(m *Machine, e *event) bool { return m.confirms(e.id) }}
	forNow      = guard{"not ready yet", func(_ *Machine, e *event) bool { return e.refusal.Reason == NotReady }}
	newFault    = guard{"changed", func(m *Machine, e *event) bool { return e.id != m.folderFault }}

	othersWait = guard{"others wait", func(m *Machine, _ *event) bool { return len(m.isolated) > 0 }}
	otherStep  = guard{"of another step", func(m *Machine, e *event) bool { return e.number != m.current.step }}
	shrunk     = guard{"memory shrunk", func(m *Machine, _ *event) bool { return m.memory == Shrunk }}

	otherLease = guard{"of another lease", func(m *Machine, e *event) bool { return e.id != m.model.Lease }}
	tooFew     = guard{"too few", func(m *Machine, e *event) bool { return e.n < m.minBlocks() }}
	newAttempt = guard{"another attempt", func(m *Machine, e *event) bool { return e.number != m.shrink.attempt }}
	inProgress = guard{"in progress", func(m *Machine, e *event) bool { return true }}

	hasAdapters = guard{"adapters wanted", func(m *Machine, _ *event) bool { return m.cfg.MaxAdapters > 0 }}
	hasPages    = guard{"pages leased", func(m *Machine, _ *event) bool {
		return m.cfg.MaxAdapters > 0 && m.model.AdapterPages > 0
	}}
)

// lifeTable is the life cycle of doc.go. The first row that fits applies.
var lifeTable = []row[State]{
	{[]State{Created}, evStart, always, Loading, (*Machine).start, "publish; load the weights"},
	{[]State{Loading}, evRetry, always, sameState, (*Machine).load, "load the weights"},
	{[]State{Adopting}, evRetry, always, sameState, (*Machine).adopt, "look up the blocks"},
	{[]State{Starting, Confirming}, evRetry, unconfirmed, sameState, (*Machine).awaitConfirm, "publish"},
	{[]State{Loading}, evLoaded, always, Adopting, (*Machine).loaded, "keep the model; look up the blocks"},
	{[]State{Loading}, evLoadRefused, forNow, sameState, nil, "ignore"},
	{[]State{Loading}, evLoadRefused, always, Failed, (*Machine).loadRefused, "keep the failure; publish"},
	{[]State{Adopting}, evAdopted, always, Starting, (*Machine).adopted, "start the engine; report KV"},
	{[]State{Starting}, evEngineReady, confirmed, Serving, (*Machine).engineServes, "publish; advance"},
	{[]State{Starting}, evEngineReady, always, Confirming, (*Machine).engineReady, "—"},
	{serviced, evEngineReady, always, sameState, (*Machine).engineReady, "see steps"},
	{[]State{Confirming}, evConfirmed, confirms, Serving, (*Machine).confirmServes, "keep it; publish; advance"},
	{anyState, evConfirmed, always, sameState, (*Machine).confirm, "keep it"},
	{[]State{Serving}, evDrain, always, Draining, (*Machine).drainServing, "publish; advance"},
	{anyState, evDrain, always, sameState, (*Machine).drainRequested, "advance"},
	{[]State{Serving}, evSubmit, always, sameState, (*Machine).submit, "accept or refuse"},
	{anyState, evSubmit, always, sameState, (*Machine).refuseSubmission, "refuse"},
	{serviced, evCheckFolder, always, sameState, (*Machine).checkFolder, "check the folder"},
	{serviced, evFolderChecked, newFault, sameState, (*Machine).folderChanged, "set the timer; report"},
	{serviced, evFolderChecked, always, sameState, (*Machine).folderChecked, "set the timer"},
	{anyState, evStop, always, Stopping, (*Machine).stop, "close; interrupt all"},
}

// stepTable is the table of steps of doc.go.
var stepTable = []row[StepState]{
	{[]StepState{Halted}, evEngineUp, always, Idle, nothing, "—"},
	{[]StepState{Running}, evEngineUp, always, Repeating, (*Machine).repeat, "repeat the step"},
	{[]StepState{Repeating}, evEngineUp, always, Isolating, (*Machine).isolate, "advance"},
	{[]StepState{Alone}, evEngineUp, othersWait, Isolating, (*Machine).dropPoison, "interrupt; drop; step ended"},
	{[]StepState{Alone}, evEngineUp, always, Idle, (*Machine).dropPoison, "interrupt; drop; step ended"},
	{[]StepState{Isolating}, evAdvance, always, sameStep, (*Machine).pick, "—"},
	{[]StepState{Isolating}, evPicked, always, Alone, (*Machine).runStep, "run it"},
	{[]StepState{Isolating}, evExhausted, always, Idle, nothing, "—"},
	{[]StepState{Idle}, evPlan, shrunk, sameStep, nil, "ignore"},
	{[]StepState{Idle}, evPlan, always, sameStep, (*Machine).plan, "interrupt rejected; send pins"},
	{[]StepState{Idle}, evPlanned, always, Running, (*Machine).runPlan, "report preempted; run the step"},
	{[]StepState{Idle}, evNothing, always, sameStep, (*Machine).rest, "answer a drain"},
	{inFlight, evStepDone, otherStep, sameStep, nil, "ignore"},
	{[]StepState{Alone}, evStepDone, othersWait, Isolating, (*Machine).stepDone, "emit; step ended"},
	{inFlight, evStepDone, always, Idle, (*Machine).stepDone, "emit; step ended"},
	{inFlight, evStepAborted, otherStep, sameStep, nil, "ignore"},
	{[]StepState{Alone}, evStepAborted, othersWait, Isolating, (*Machine).stepAborted, "requeue it; step ended"},
	{inFlight, evStepAborted, always, Idle, (*Machine).stepAborted, "requeue it; step ended"},
	{anyStep, evHalt, always, Halted, (*Machine).halt, "—"},
}

// memoryTable is the table of the KV memory of doc.go.
var memoryTable = []row[MemoryState]{
	{[]MemoryState{Unmapped}, evMapped, always, Whole, (*Machine).reportKV, "report KV; set the timer"},
	{mapped, evReportKV, always, sameMemory, (*Machine).reportKV, "report KV; set the timer"},
	{mapped, evShrink, otherLease, sameMemory, nil, "ignore"},
	{mapped, evShrink, tooFew, sameMemory, (*Machine).refuseShrink, "refuse"},
	{[]MemoryState{Whole}, evShrink, always, Shrinking, (*Machine).startShrink, "advance"},
	{mapped, evShrink, newAttempt, Shrinking, (*Machine).startShrink, "advance"},
	{[]MemoryState{Shrinking}, evShrink, inProgress, sameMemory, nil, "ignore"},
	{[]MemoryState{Shrunk}, evShrink, always, sameMemory, (*Machine).answerShrink, "answer"},
	{[]MemoryState{Shrinking}, evRelease, always, sameMemory, (*Machine).release, "report preempted"},
	{[]MemoryState{Shrinking}, evUnread, always, Shrunk, (*Machine).shrinkDone, "report blocks; answer"},
	{mapped, evGrow, otherLease, sameMemory, nil, "ignore"},
	{mapped, evGrow, always, Whole, (*Machine).grow, "advance"},
	{anyMemory, evHalt, always, Unmapped, nothing, "—"},
}

// leaseTable is the table of the adapter pool of doc.go.
var leaseTable = []row[PoolState]{
	{[]PoolState{NoAdapters}, evMapped, hasPages, PoolStarting, (*Machine).startPool, "start the pool"},
	{[]PoolState{NoAdapters}, evMapped, hasAdapters, Unleased, nothing, "—"},
	{[]PoolState{Unleased}, evWanted, always, Leasing, (*Machine).leasePages, "lease pages; set the timer"},
	{[]PoolState{Leasing}, evRetryLease, always, sameLease, (*Machine).leasePages, "lease pages; set the timer"},
	{[]PoolState{Unleased, Leasing}, evLeased, always, PoolStarting, (*Machine).startPool, "start the pool"},
	{[]PoolState{Unleased, Leasing}, evLeaseRefused, always, Unleased, (*Machine).leaseRefused,
		"interrupt those with adapters"},
	{[]PoolState{PoolStarting, PoolReady}, evPoolReady, always, PoolReady, (*Machine).poolReady,
		"send the pins in effect"},
	{anyLease, evHalt, always, NoAdapters, nothing, "—"},
}

// on applies an event and the events that it raises, and returns the effects.
func (m *Machine) on(e event) []Effect {
	m.raise(e)
	return m.settle()
}

// settle applies the raised events and returns the effects.
func (m *Machine) settle() []Effect {
	for i := 0; i < len(m.raised); i++ {
		m.dispatch(&m.raised[i])
	}
	m.raised = m.raised[:0]
	return m.take()
}

// dispatch applies an event to the tables that it belongs to.
func (m *Machine) dispatch(e *event) {
	switch k := e.kind; {
	case k <= evFolderChecked:
		apply(m, lifeTable, &m.state, sameState, e)
	case k <= evExhausted:
		apply(m, stepTable, &m.step, sameStep, e)
	case k <= evUnread:
		apply(m, memoryTable, &m.memory, sameMemory, e)
	case k <= evPoolReady:
		apply(m, leaseTable, &m.lease, sameLease, e)
	case k == evMapped:
		if m.cfg.MaxAdapters > 0 {
			apply(m, leaseTable, &m.lease, sameLease, e)
		}
		apply(m, memoryTable, &m.memory, sameMemory, e)
	case k == evHalt:
		apply(m, stepTable, &m.step, sameStep, e)
		apply(m, memoryTable, &m.memory, sameMemory, e)
		apply(m, leaseTable, &m.lease, sameLease, e)
	}
}

// apply applies the first row that fits an event.
func apply[S state](m *Machine, table []row[S], state *S, same S, e *event) {
	for i := range table {
		r := &table[i]
		if r.on != e.kind || !slices.Contains(r.from, *state) || r.when.holds != nil && !r.when.holds(m, e) {
			continue
		}
		if r.do == nil {
			m.add(Ignored{*state, e.kind, r.when.name})
			return
		}
		if r.to != same {
			*state = r.to
		}
		r.do(m, e)
		return
	}
	m.add(Ignored{*state, e.kind, "unexpected"})
}

// nothing is the action of a row that only changes the state.
func nothing(*Machine, *event) {}
