package export

import (
	"troupe/core/kv"
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

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("export", []row{
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
})

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	state := m.State(e.id)
	r := rows.Find(state, e.kind, func(holds condition) bool { return holds(m, e) })
	if r == nil {
		return []Effect{Ignored{e.id, state, e.kind}}
	}
	r.Do(m, e)
	switch r.To {
	case same:
	case None:
		delete(m.exports, e.id)
	default:
		m.exports[e.id].state = r.To
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
