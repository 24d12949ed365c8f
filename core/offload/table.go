package offload

import (
	"slices"

	"troupe/core/table"
)

type (
	condition = func(*Machine, event) bool
	action    = func(*Machine, event)

	row   = table.Row[State, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	selecting = []State{SelectDue, SelectIdle, SelectUnused, SelectUsed}
	early     = []State{SelectDue, SelectIdle}
	resting   = []State{Idle, Copying, Paused}
	all       = []State{Off, Idle, SelectDue, SelectIdle, SelectUnused, SelectUsed, Copying, Paused}
)

var (
	always     = guard{}
	some       = guard{"some", func(_ *Machine, e event) bool { return len(e.blocks) > 0 }}
	idleDue    = guard{"idle due", func(m *Machine, _ event) bool { return m.idleDue }}
	commanded  = guard{"command", func(m *Machine, _ event) bool { return m.command != nil }}
	stored     = guard{"stored", stores}
	notReady   = guard{"not ready", func(_ *Machine, e event) bool { return !e.ready }}
	impossible = guard{"impossible", func(m *Machine, _ event) bool { return m.state == Off }}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("offload", []row{
	{[]State{Off}, TickEvent, always, same, (*Machine).nothing, "-"},
	{[]State{Idle}, TickEvent, always, SelectDue, (*Machine).selectDue, "report steps if due; select"},
	{[]State{Copying, Paused}, TickEvent, always, same, (*Machine).observe, "report steps if due"},

	{selecting, SelectedEvent, some, Copying, (*Machine).copy, "copy"},
	{[]State{SelectDue}, SelectedEvent, idleDue, SelectIdle, (*Machine).selectIdle, "select"},
	{early, SelectedEvent, commanded, SelectUnused, (*Machine).selectUnused, "select"},
	{early, SelectedEvent, always, Idle, (*Machine).nothing, "-"},
	{[]State{SelectUnused}, SelectedEvent, always, SelectUsed, (*Machine).selectUsed, "select"},
	{[]State{SelectUsed}, SelectedEvent, always, Idle, (*Machine).answerCommand, "answer the command"},

	{[]State{Copying}, CopiedEvent, stored, Idle, (*Machine).succeed, "finish; count for the command; advance"},
	{[]State{Copying}, CopiedEvent, always, Paused, (*Machine).pause, "finish; set the timer; answer; advance"},

	{[]State{Paused}, RetryEvent, always, Idle, (*Machine).advance, "advance"},

	{all, OffloadEvent, notReady, same, (*Machine).refuseNotReady, "refuse: not ready"},
	{all, OffloadEvent, impossible, same, (*Machine).refuseUnsupported, "refuse: unsupported"},
	{resting, OffloadEvent, always, same, (*Machine).noteCommand, "note the command; advance"},

	{all, RestoreEvent, notReady, same, (*Machine).refuseNotReady, "refuse: not ready"},
	{all, RestoreEvent, impossible, same, (*Machine).refuseUnsupported, "refuse: unsupported"},
	{resting, RestoreEvent, always, same, (*Machine).prefetch, "prefetch"},

	{all, FlushEvent, notReady, same, (*Machine).refuseNotReady, "refuse: not ready"},
	{all, FlushEvent, always, same, (*Machine).flush, "flush HBM"},
})

// stores reports whether a copy stored blocks and did not fail.
func stores(_ *Machine, e event) bool { return e.fault == "" && slices.Contains(e.stored, true) }

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	r := rows.Find(m.state, e.kind, func(holds condition) bool { return holds(m, e) })
	if r == nil {
		return []Effect{Ignored{m.state, e.kind}}
	}
	r.Do(m, e)
	if r.To != same {
		m.state = r.To
	}
	return m.end()
}
