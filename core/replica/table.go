package replica

import "troupe/core/table"

type (
	condition = func(*Machine, *event) bool
	action    = func(*Machine, *event)

	row[S table.Enum] = table.Row[S, Event, condition, action]
	guard             = table.Guard[condition]
)

const same = table.Same

var (
	anyState = []State{Created, Loading, Adopting, Starting, Confirming, Serving, Suspending, Standby, Draining,
		Saving, Saved, Failed, Stopping}
	serviced  = []State{Confirming, Serving, Suspending, Standby, Draining, Saving, Saved}
	suspended = []State{Suspending, Standby}
	running   = []State{Serving, Suspending, Standby}
	saveable  = []State{Serving, Suspending, Standby, Draining}
	anyStep   = []StepState{Halted, Idle, Running, Repeating, Isolating, Alone}
	inFlight  = []StepState{Running, Repeating, Alone}
	anyMemory = []MemoryState{Unmapped, Whole, Shrinking, Shrunk}
	mapped    = []MemoryState{Whole, Shrinking, Shrunk}
	anyTurn   = []TurnState{NoTurn, AwaitingTurn, OneStep, OpenTurn, RecalledTurn}
	spent     = []TurnState{OneStep, RecalledTurn}
	held      = []TurnState{OneStep, OpenTurn, RecalledTurn}
	anyLease  = []PoolState{NoAdapters, Unleased, Leasing, PoolStarting, PoolReady}
)

var (
	hasOutput   = guard{"has output", func(_ *Machine, e *event) bool { return len(e.submission.Output) > 0 }}
	already     = guard{"already", func(*Machine, *event) bool { return true }}
	always      = guard{}
	unconfirmed = guard{"not confirmed", func(m *Machine, _ *event) bool { return !m.revisionConfirmed() }}
	forStandby  = guard{"for standby", func(m *Machine, _ *event) bool {
		return m.standby && m.revisionConfirmed()
	}}
	confirmsStandby = guard{"for standby", func(m *Machine, e *event) bool {
		return m.standby && m.confirms(e.id)
	}}
	confirmed = guard{"confirmed", func(m *Machine, _ *event) bool { return m.revisionConfirmed() }}
	confirms  = guard{"of these files", func(m *Machine, e *event) bool { return m.confirms(e.id) }}
	forNow    = guard{"not ready yet", func(_ *Machine, e *event) bool { return e.refusal.Reason == NotReady }}
	newFault  = guard{"changed", func(m *Machine, e *event) bool { return e.folder != m.folder }}

	othersWait = guard{"others wait", func(m *Machine, _ *event) bool { return len(m.isolated) > 0 }}
	otherStep  = guard{"of another step", func(m *Machine, e *event) bool { return e.number != m.current.step }}
	notBegun   = guard{"before the step", func(m *Machine, e *event) bool { return e.number != m.current.step }}
	saves      = guard{"saving", func(m *Machine, _ *event) bool { return m.state == Saving }}
	notSaving  = guard{"not requested", func(m *Machine, _ *event) bool { return !m.save.began }}
	shrunk     = guard{"memory shrunk", func(m *Machine, _ *event) bool { return m.memory == Shrunk }}

	turnless   = guard{"without a turn", func(m *Machine, _ *event) bool { return !m.mayStep() && m.hasWork() }}
	grantsOpen = guard{"until recalled", func(_ *Machine, e *event) bool { return e.open }}
	otherTurn  = guard{"of another turn", func(m *Machine, e *event) bool { return e.number != m.turn.number }}
	stepping   = guard{"in a step", func(m *Machine, _ *event) bool { return m.Stepping() }}
	working    = guard{"has work", func(m *Machine, _ *event) bool { return m.hasWork() }}
	onStandby  = guard{"on standby", func(m *Machine, _ *event) bool { return m.state == Standby }}
	notOpen    = guard{"not open", func(*Machine, *event) bool { return true }}

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
var lifeTable = table.New("replica", []row[State]{
	{[]State{Created}, evStart, always, Loading, (*Machine).start, "publish; load the weights"},
	{[]State{Loading}, evRetry, always, same, (*Machine).load, "load the weights"},
	{[]State{Adopting}, evRetry, always, same, (*Machine).adopt, "look up the blocks"},
	{[]State{Starting, Confirming}, evRetry, unconfirmed, same, (*Machine).awaitConfirm, "publish"},
	{[]State{Loading}, evLoaded, always, Adopting, (*Machine).loaded, "keep the model; look up the blocks"},
	{[]State{Loading}, evLoadRefused, forNow, same, nil, "ignore"},
	{[]State{Loading}, evLoadRefused, always, Failed, (*Machine).loadRefused, "keep the failure; publish"},
	{[]State{Adopting}, evAdopted, always, Starting, (*Machine).adopted, "start the engine; report KV"},
	{[]State{Starting}, evEngineReady, forStandby, Standby, (*Machine).engineServes, "publish; report KV; advance"},
	{[]State{Starting}, evEngineReady, confirmed, Serving, (*Machine).engineServes, "publish; report KV; advance"},
	{[]State{Starting}, evEngineReady, always, Confirming, (*Machine).engineReady, "—"},
	{serviced, evEngineReady, always, same, (*Machine).engineReady, "see steps"},
	{[]State{Confirming}, evConfirmed, confirmsStandby, Standby, (*Machine).confirmServes,
		"keep it; publish; report KV; advance"},
	{[]State{Confirming}, evConfirmed, confirms, Serving, (*Machine).confirmServes,
		"keep it; publish; report KV; advance"},
	{anyState, evConfirmed, always, same, (*Machine).confirm, "keep it"},
	{[]State{Serving}, evStandby, always, Suspending, (*Machine).suspend,
		"keep the level; publish; report KV; advance"},
	{suspended, evStandby, already, same, nil, "ignore"},
	{anyState, evStandby, always, same, (*Machine).keepLevel, "keep the level"},
	{[]State{Suspending}, evEmpty, always, Standby, (*Machine).empty, "publish; report KV"},
	{suspended, evActivate, always, Serving, (*Machine).activate, "keep the level; publish; report KV; advance"},
	{[]State{Serving}, evActivate, already, same, nil, "ignore"},
	{anyState, evActivate, always, same, (*Machine).keepLevel, "keep the level"},
	{running, evDrain, always, Draining, (*Machine).drainServing, "publish; advance"},
	{anyState, evDrain, always, same, (*Machine).drainRequested, "advance"},
	{saveable, evSave, always, Saving, (*Machine).startSaving, "publish; advance"},
	{[]State{Saving}, evSave, always, same, (*Machine).saveAgain, "advance"},
	{[]State{Saved}, evSave, always, same, (*Machine).answerSave, "answer"},
	{[]State{Saving}, evBlocksSaved, notSaving, same, nil, "ignore"},
	{[]State{Saving}, evBlocksSaved, always, Saved, (*Machine).requeue, "interrupt all; publish; answer"},
	{running, evSubmit, isFaulty, same, (*Machine).refuseSubmission, "refuse"},
	{[]State{Serving}, evSubmit, always, same, (*Machine).submit, "accept or refuse"},
	{[]State{Suspending}, evSubmit, hasOutput, same, (*Machine).submit, "accept or refuse"},
	{[]State{Standby}, evSubmit, hasOutput, Suspending, (*Machine).resume,
		"accept or refuse; publish; report KV; advance"},
	{anyState, evSubmit, always, same, (*Machine).refuseSubmission, "refuse"},
	{serviced, evCheckFolder, always, same, (*Machine).checkFolder, "check the folder"},
	{serviced, evFolderChecked, newFault, same, (*Machine).folderChanged, "set the timer; report"},
	{serviced, evFolderChecked, always, same, (*Machine).folderChecked, "set the timer"},
	{anyState, evStop, always, Stopping, (*Machine).stop, "close; interrupt all"},
})

// stepTable is the table of steps of doc.go.
var stepTable = table.New("replica steps", []row[StepState]{
	{[]StepState{Halted}, evEngineUp, always, Idle, nothing, "—"},
	{inFlight, evEngineUp, notBegun, same, (*Machine).repeat, "repeat the step"},
	{[]StepState{Running}, evEngineUp, always, Repeating, (*Machine).repeat, "repeat the step"},
	{[]StepState{Repeating}, evEngineUp, always, Isolating, (*Machine).isolate, "advance"},
	{[]StepState{Alone}, evEngineUp, othersWait, Isolating, (*Machine).dropPoison, "interrupt; drop; step ended"},
	{[]StepState{Alone}, evEngineUp, always, Idle, (*Machine).dropPoison, "interrupt; drop; step ended"},
	{[]StepState{Isolating}, evAdvance, always, same, (*Machine).pick, "—"},
	{[]StepState{Isolating}, evPicked, always, Alone, (*Machine).runStep, "run it"},
	{[]StepState{Isolating}, evExhausted, always, Idle, (*Machine).endsStep, "—"},
	{[]StepState{Idle}, evPlan, shrunk, same, nil, "ignore"},
	{[]StepState{Idle}, evPlan, saves, same, (*Machine).saveBlocks, "report preempted; save the blocks"},
	{[]StepState{Idle}, evPlan, turnless, same, (*Machine).needTurn, "need a turn"},
	{[]StepState{Idle}, evPlan, always, same, (*Machine).plan, "interrupt rejected; send pins"},
	{[]StepState{Idle}, evPlanned, always, Running, (*Machine).runPlan, "report preempted; run the step"},
	{[]StepState{Idle}, evNothing, always, same, (*Machine).rest, "answer a drain"},
	{inFlight, evStepDone, otherStep, same, nil, "ignore"},
	{[]StepState{Alone}, evStepDone, othersWait, Isolating, (*Machine).stepDone, "emit; step ended"},
	{inFlight, evStepDone, always, Idle, (*Machine).stepDone, "emit; step ended"},
	{inFlight, evStepAborted, otherStep, same, nil, "ignore"},
	{[]StepState{Alone}, evStepAborted, othersWait, Isolating, (*Machine).stepAborted, "requeue it; step ended"},
	{inFlight, evStepAborted, always, Idle, (*Machine).stepAborted, "requeue it; step ended"},
	{anyStep, evHalt, always, Halted, (*Machine).halt, "—"},
})

// turnTable is the table of turns of doc.go.
var turnTable = table.New("replica turns", []row[TurnState]{
	{[]TurnState{NoTurn}, evNeedTurn, always, AwaitingTurn, (*Machine).askTurn, "ask for it"},
	{anyTurn, evNeedTurn, always, same, nothing, "—"},
	{[]TurnState{AwaitingTurn}, evRepeat, always, same, (*Machine).askTurn, "ask for it"},
	{anyTurn, evRepeat, always, same, nothing, "—"},
	{[]TurnState{AwaitingTurn}, evGranted, shrunk, NoTurn, (*Machine).returnTurn, "end it"},
	{[]TurnState{AwaitingTurn}, evGranted, grantsOpen, OpenTurn, (*Machine).takeTurn, "advance"},
	{[]TurnState{AwaitingTurn}, evGranted, always, OneStep, (*Machine).takeTurn, "advance"},
	{anyTurn, evGranted, always, same, (*Machine).returnTurn, "end it"},
	{[]TurnState{OpenTurn}, evRecalled, otherTurn, same, nil, "ignore"},
	{[]TurnState{OpenTurn}, evRecalled, stepping, RecalledTurn, nothing, "—"},
	{[]TurnState{OpenTurn}, evRecalled, always, NoTurn, (*Machine).endTurn, "end it"},
	{anyTurn, evRecalled, notOpen, same, nil, "ignore"},
	{spent, evStepped, working, AwaitingTurn, (*Machine).endAndAsk, "end it and ask for another"},
	{spent, evStepped, always, NoTurn, (*Machine).endTurn, "end it"},
	{anyTurn, evStepped, always, same, nothing, "—"},
	{[]TurnState{OneStep}, evUnused, always, NoTurn, (*Machine).endTurn, "end it"},
	{[]TurnState{OpenTurn}, evUnused, onStandby, NoTurn, (*Machine).endTurn, "end it"},
	{[]TurnState{AwaitingTurn}, evUnused, onStandby, NoTurn, nothing, "—"},
	{anyTurn, evUnused, always, same, nothing, "—"},
	{[]TurnState{NoTurn}, evReset, always, same, (*Machine).noTurn, "report it"},
	{[]TurnState{AwaitingTurn}, evReset, always, same, (*Machine).askTurn, "ask for it"},
	{held, evReset, stepping, RecalledTurn, nothing, "—"},
	{held, evReset, always, NoTurn, (*Machine).endTurn, "end it"},
	{anyTurn, evHalt, always, NoTurn, nothing, "—"},
})

// memoryTable is the table of the KV memory of doc.go.
var memoryTable = table.New("replica KV memory", []row[MemoryState]{
	{[]MemoryState{Unmapped}, evMapped, always, Whole, (*Machine).reportKV, "report KV; set the timer"},
	{mapped, evReportKV, always, same, (*Machine).reportKV, "report KV; set the timer"},
	{mapped, evShrink, otherLease, same, nil, "ignore"},
	{mapped, evShrink, tooFew, same, (*Machine).refuseShrink, "refuse"},
	{[]MemoryState{Whole}, evShrink, always, Shrinking, (*Machine).startShrink, "advance"},
	{mapped, evShrink, newAttempt, Shrinking, (*Machine).startShrink, "advance"},
	{[]MemoryState{Shrinking}, evShrink, inProgress, same, nil, "ignore"},
	{[]MemoryState{Shrunk}, evShrink, always, same, (*Machine).answerShrink, "answer"},
	{[]MemoryState{Shrinking}, evRelease, always, same, (*Machine).release, "report preempted"},
	{[]MemoryState{Shrinking}, evUnread, always, Shrunk, (*Machine).shrinkDone, "report blocks; answer"},
	{mapped, evGrow, otherLease, same, nil, "ignore"},
	{mapped, evGrow, always, Whole, (*Machine).grow, "advance"},
	{anyMemory, evHalt, always, Unmapped, nothing, "—"},
})

// leaseTable is the table of the adapter pool of doc.go.
var leaseTable = table.New("replica adapters", []row[PoolState]{
	{[]PoolState{NoAdapters}, evMapped, hasPages, PoolStarting, (*Machine).startPool, "start the pool"},
	{[]PoolState{NoAdapters}, evMapped, hasAdapters, Unleased, nothing, "—"},
	{[]PoolState{Unleased}, evWanted, always, Leasing, (*Machine).leasePages, "lease pages; set the timer"},
	{[]PoolState{Leasing}, evRetryLease, always, same, (*Machine).leasePages, "lease pages; set the timer"},
	{[]PoolState{Unleased, Leasing}, evLeased, always, PoolStarting, (*Machine).startPool, "start the pool"},
	{[]PoolState{Unleased, Leasing}, evLeaseRefused, always, Unleased, (*Machine).leaseRefused,
		"interrupt those with adapters"},
	{[]PoolState{PoolStarting, PoolReady}, evPoolReady, always, PoolReady, (*Machine).poolReady,
		"send the pins in effect"},
	{anyLease, evHalt, always, NoAdapters, nothing, "—"},
})

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
	case k <= evEmpty:
		apply(m, lifeTable, &m.state, e)
	case k <= evExhausted:
		apply(m, stepTable, &m.step, e)
	case k <= evRepeat:
		apply(m, turnTable, &m.turnState, e)
	case k <= evUnread:
		apply(m, memoryTable, &m.memory, e)
	case k <= evPoolReady:
		apply(m, leaseTable, &m.lease, e)
	case k == evMapped:
		if m.cfg.MaxAdapters > 0 {
			apply(m, leaseTable, &m.lease, e)
		}
		apply(m, memoryTable, &m.memory, e)
		apply(m, faultTable, &m.fault, e)
	case k == evHalt:
		apply(m, stepTable, &m.step, e)
		apply(m, turnTable, &m.turnState, e)
		apply(m, memoryTable, &m.memory, e)
		apply(m, leaseTable, &m.lease, e)
		apply(m, faultTable, &m.fault, e)
	default:
		apply(m, faultTable, &m.fault, e)
	}
}

// apply applies the first row that fits an event.
func apply[S table.Enum](m *Machine, of *table.Table[S, Event, condition, action], state *S, e *event) {
	r := of.Find(*state, e.kind, func(holds condition) bool { return holds(m, e) })
	switch {
	case r == nil:
		m.add(Ignored{*state, e.kind, "unexpected"})
		return
	case r.Do == nil:
		m.add(Ignored{*state, e.kind, r.When.Name})
		return
	}
	if r.To != same {
		*state = r.To
	}
	r.Do(m, e)
}

// nothing is the action of a row that only changes the state.
func nothing(*Machine, *event) {}
