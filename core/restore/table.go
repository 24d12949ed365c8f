package restore

import (
	"slices"

	"troupe/core/table"
)

type (
	condition = func(*Machine, *entry, event) bool
	action    = func(*Machine, *entry, event)

	row   = table.Row[State, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	copying = []State{Restoring, Ready, Overlapped, Failed, Preempted, Taken, Abandoned}
	// held lists the states of a held sequence.
	held = []State{Waiting, LookingUp, Found, Reserving, Restoring, Ready, Failed, Preempted}
	// atCopier lists the states in which the copier has a lookup or copies.
	atCopier = []State{LookingUp, Found, Restoring, Ready, Overlapped, Failed, Preempted, Taken, Orphaned, Abandoned}
	// counted lists the states that count against maxLookups.
	counted = []State{LookingUp, Found, Reserving, Restoring, Ready, Overlapped, Failed, Preempted, Orphaned}
)

var (
	always      = guard{}
	allInHBM    = guard{"all blocks are in HBM", (*Machine).allInHBM}
	noSource    = guard{"no tier or holder", (*Machine).noSource}
	full        = guard{"8 look up or restore", (*Machine).full}
	sameBlock   = guard{"first block is sought", (*Machine).sameBlock}
	commandNone = guard{"command, nothing found", both((*Machine).forCommand, (*Machine).nothingFound)}
	notWaiting  = guard{"no longer waits", (*Machine).notWaiting}
	recompute   = guard{"recomputing is faster", (*Machine).recompute}
	inTime      = guard{"the rest arrives in time", (*Machine).inTime}
	forCommand  = guard{"command", (*Machine).forCommand}
	complete    = guard{"all were copied", (*Machine).complete}
	unended     = guard{"not ended", (*Machine).unended}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("restore", []row{
	{[]State{Gone}, Queued, always, Pending, (*Machine).nothing, "—"},
	{[]State{Pending}, Queued, always, same, (*Machine).nothing, "—"},
	{[]State{Overlapped}, Queued, always, Preempted, (*Machine).nothing, "—"},

	{[]State{Gone}, Admissible, always, same, (*Machine).nothing, "—"},
	{[]State{Pending}, Admissible, allInHBM, same, (*Machine).nothing, "—"},
	{[]State{Pending}, Admissible, noSource, Gone, (*Machine).nothing, "—"},
	{[]State{Pending}, Admissible, full, same, nil, "ignore"},
	{[]State{Pending}, Admissible, sameBlock, Waiting, (*Machine).wait, "hold"},
	{[]State{Pending}, Admissible, always, LookingUp, (*Machine).lookUp, "hold; look up"},

	{[]State{Gone}, Prefetch, always, LookingUp, (*Machine).prefetch, "look up"},

	{[]State{LookingUp}, LookedUp, always, Found, (*Machine).keepFound, "—"},
	{[]State{Orphaned}, LookedUp, always, Gone, (*Machine).release, "unlock; wake"},

	{[]State{Found}, Judged, commandNone, Gone, (*Machine).answerNone, "unlock; answer"},
	{[]State{Found}, Judged, notWaiting, Gone, (*Machine).giveUp, "unlock; resume; wake"},
	{[]State{Found}, Judged, recompute, Gone, (*Machine).avoid, "unlock; resume; wake; count"},
	{[]State{Found}, Judged, always, Reserving, (*Machine).reserve, "reserve; count"},

	{[]State{Reserving}, Reserved, always, Restoring, (*Machine).copyBlocks, "copy"},

	{[]State{Restoring}, Arrived, inTime, Ready, (*Machine).canStart, "tell"},
	{copying, Arrived, always, same, (*Machine).nothing, "—"},

	{[]State{Ready}, Start, always, same, (*Machine).start, "start"},
	{[]State{Ready}, Started, always, Overlapped, (*Machine).nothing, "—"},
	{[]State{Overlapped}, StepDone, always, Taken, (*Machine).stepDone, "count"},
	{[]State{Overlapped}, StepAborted, always, Failed, (*Machine).undoStart, "undo"},

	{copying, Copied, unended, same, (*Machine).keepResult, "—"},

	{[]State{Restoring}, Ended, forCommand, Gone, (*Machine).endCommand, "commit; release; answer"},
	{[]State{Restoring, Ready, Failed}, Ended, always, Gone, (*Machine).endHeld, "commit; release; resume; wake"},
	{[]State{Overlapped}, Ended, complete, Gone, (*Machine).endStarted, "finish; release; wake"},
	{[]State{Overlapped}, Ended, always, Gone, (*Machine).endUndone, "undo; commit; release; resume; wake"},
	{[]State{Preempted}, Ended, always, Pending, (*Machine).endPreempted, "commit; release; resume; wake"},
	{[]State{Taken}, Ended, always, Gone, (*Machine).endTaken, "release; wake"},
	{[]State{Abandoned}, Ended, always, Gone, (*Machine).endAbandoned, "commit; release; wake"},

	{[]State{Waiting}, Woken, always, Pending, (*Machine).resume, "resume"},

	{[]State{Pending, Waiting}, Dropped, always, Gone, (*Machine).leave, "—"},
	{[]State{LookingUp}, Dropped, always, Orphaned, (*Machine).leave, "—"},
	{[]State{Found}, Dropped, always, Gone, (*Machine).release, "unlock; wake"},
	{[]State{Restoring, Ready, Overlapped, Failed, Preempted}, Dropped, always, Abandoned, (*Machine).leave, "—"},

	{[]State{LookingUp}, Lost, always, Found, (*Machine).keepFound, "—"},
	{[]State{Found}, Lost, always, same, (*Machine).forgetFound, "—"},
	{[]State{Orphaned}, Lost, always, Gone, (*Machine).wake, "wake"},
	{copying, Lost, unended, same, (*Machine).copiesLost, "—"},
})

// on applies the first row that fits an event.
func (m *Machine) on(e *entry, v event) {
	state := Gone
	if e != nil {
		state = e.state
	}
	r := rows.Find(state, v.kind, func(holds condition) bool { return holds(m, e, v) })
	switch {
	case r == nil:
		m.emit(Ignored{state, v.kind, "unexpected"})
		return
	case r.Do == nil:
		m.emit(Ignored{state, v.kind, r.When.Name})
		return
	}
	if r.To != same {
		m.enter(e, r.To)
	}
	r.Do(m, e, v)
	woken := m.woken
	m.woken = nil
	for _, w := range woken {
		m.on(w, event{kind: Woken})
	}
}

// enter changes the state of an entry.
func (m *Machine) enter(e *entry, to State) {
	counts := func() int {
		if e.command == 0 && slices.Contains(counted, e.state) {
			return 1
		}
		return 0
	}
	m.active -= counts()
	e.state = to
	m.active += counts()
	switch to {
	case Taken, Orphaned, Abandoned, Gone:
		if m.byID[e.id] == e {
			delete(m.byID, e.id)
		}
	}
	if to == Gone || to == Pending {
		delete(m.entries, e.number)
	}
}

func both(a, b condition) condition {
	return func(m *Machine, e *entry, v event) bool { return a(m, e, v) && b(m, e, v) }
}
