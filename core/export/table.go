package export

import (
	"slices"

	"troupe/core/kv"
)

// row is one transition. In any state of from, if event on arrives and guard when holds, the
// machine runs do and enters state to.
type row struct {
	from []State
	on   Event
	when guard
	to   State
	do   func(*Machine, event)
	does string // do, in the table of doc.go
}

// guard is a condition of a transition. The zero value always holds.
type guard struct {
	name  string
	holds func(*Machine, event) bool
}

// same, as the next state of a row, leaves the state unchanged.
const same State = 255

var (
	none   = []State{None}
	active = []State{Sending, Ending}
)

var (
	always      = guard{}
	notReady    = guard{"not ready", func(m *Machine, _ event) bool { return m.cfg.NotReady }}
	unsupported = guard{"unsupported", func(m *Machine, _ event) bool { return m.cfg.Unsupported != "" }}
	otherBlocks = guard{"other blocks", (*Machine).otherBlocks}
	malformed   = guard{"malformed", (*Machine).malformed}
	tooLarge    = guard{"too large", (*Machine).tooLarge}
	tooMany     = guard{"too many", func(m *Machine, _ event) bool { return len(m.exports) >= maxExports }}
	failed      = guard{"failed", func(_ *Machine, e event) bool { return e.fault != "" || len(e.damaged) > 0 }}
)

// table is the transition table of doc.go. The first row that fits applies.
var table = []row{
	{none, Lease, notReady, same, (*Machine).refuseNotReady, "refuse: not ready"},
	{none, Lease, unsupported, same, (*Machine).refuseUnsupported, "refuse: unsupported"},
	{none, Lease, otherBlocks, same, (*Machine).refuseOther, "refuse: conflict"},
	{none, Lease, malformed, same, (*Machine).refuseMalformed, "refuse: invalid"},
	{none, Lease, tooLarge, same, (*Machine).refuseLarge, "refuse: invalid"},
	{none, Lease, tooMany, same, (*Machine).refuseMany, "refuse: queue full"},
	{none, Lease, always, Locking, (*Machine).lock, "lock"},
	{active, Lease, always, same, (*Machine).replaceRequester, "replace the requester"},

	{[]State{Locking}, Locked, always, Sending, (*Machine).send, "send"},

	{[]State{Sending}, Release, always, Ending, (*Machine).cancel, "cancel"},

	{active, Ended, failed, None, (*Machine).fail, "drop, unlock, refuse"},
	{active, Ended, always, None, (*Machine).answer, "unlock, answer"},
}

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	state := m.State(e.id)
	i := slices.IndexFunc(table, func(r row) bool {
		return r.on == e.kind && slices.Contains(r.from, state) && (r.when.holds == nil || r.when.holds(m, e))
	})
	if i < 0 {
		return []Effect{Ignored{e.id, state, e.kind}}
	}
	r := table[i]
	r.do(m, e)
	switch r.to {
	case same:
	case None:
		delete(m.exports, e.id)
	default:
		m.exports[e.id].state = r.to
	}
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *Machine) otherBlocks(e event) bool {
	own := m.cfg.Own
	return own != nil && (e.request.Space != own.Space || e.request.BlockBytes != uint64(own.Bytes))
}

func (m *Machine) malformed(e event) bool {
	return e.request.Malformed != "" || e.request.Space == kv.Hash{}
}

func (m *Machine) tooLarge(e event) bool {
	return m.cfg.Own == nil && (e.request.BlockBytes == 0 || e.request.BlockBytes > uint64(m.cfg.MaxBytes))
}
