package offload

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

// table is the transition table of doc.go. The first row that fits applies.
var table = []row{
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
}

// stores reports whether a copy stored blocks and did not fail.
func stores(_ *Machine, e event) bool { return e.fault == "" && slices.Contains(e.stored, true) }

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	for i := range table {
		r := &table[i]
		if r.on != e.kind || !slices.Contains(r.from, m.state) || r.when.holds != nil && !r.when.holds(m, e) {
			continue
		}
		r.do(m, e)
		if r.to != same {
			m.state = r.to
		}
		return m.end()
	}
	return []Effect{Ignored{m.state, e.kind}}
}
