package hostcache

import "slices"

// row is one transition of an image. In any state of from, if event on arrives and guard when holds,
// the machine runs do, and the image enters state to.
type row struct {
	from []State
	on   Event
	when guard
	to   State
	do   func(*Machine, *image, event) // nil: ignore the event, with the guard as the reason
	does string                        // do, in the table of doc.go
}

// guard is a condition of a transition. The zero value always holds.
type guard struct {
	name  string
	holds func(*Machine, *image, event) bool
}

// same, as the next state of a row, leaves the state unchanged.
const same State = 255

var (
	absent  = []State{Absent}
	filling = []State{Filling}
	ready   = []State{Ready}
	revoked = []State{Revoked}
	there   = []State{Filling, Ready}
)

var (
	always  = guard{}
	noRoom  = guard{"no room", func(m *Machine, _ *image, e event) bool { return m.roomFor(e.bytes) < 0 }}
	notOpen = guard{"was not open", func(_ *Machine, i *image, e event) bool { return !i.readers[e.reader] }}
	inUse   = guard{"in use", func(_ *Machine, i *image, _ event) bool { return len(i.readers) > 0 }}
	others  = guard{"others use it", func(_ *Machine, i *image, _ event) bool { return len(i.readers) > 1 }}
)

// table is the transition table of doc.go. The first row that fits applies.
var table = []row{
	{absent, evFill, noRoom, same, (*Machine).refuse, "refuse"},
	{absent, evFill, always, Filling, (*Machine).reserve, "evict others; reserve"},
	{ready, evFill, always, same, (*Machine).use, "note the use"},

	{filling, evFilled, always, Ready, (*Machine).use, "—"},
	{revoked, evFilled, inUse, same, nil, "ignore"},
	{revoked, evFilled, always, Absent, (*Machine).free, "free"},
	{filling, evFailed, always, Absent, (*Machine).free, "free"},
	{revoked, evFailed, inUse, same, nil, "ignore"},
	{revoked, evFailed, always, Absent, (*Machine).free, "free"},

	{ready, evOpen, always, same, (*Machine).open, "count the reader; note the use"},
	{ready, evClose, notOpen, same, nil, "ignore"},
	{revoked, evClose, notOpen, same, nil, "ignore"},
	{ready, evClose, always, same, (*Machine).close, "discount the reader; evict if over the budget"},
	{revoked, evClose, others, same, (*Machine).close, "discount the reader"},
	{revoked, evClose, always, Absent, (*Machine).free, "free"},

	{there, evPin, always, same, (*Machine).pin, "—"},
	{there, evUnpin, always, same, (*Machine).pin, "evict if over the budget"},

	{filling, evRevoke, always, Revoked, (*Machine).revoke, "—"},
	{ready, evRevoke, inUse, Revoked, (*Machine).revoke, "—"},
	{ready, evRevoke, always, Absent, (*Machine).free, "free"},

	{absent, evRecovered, always, Ready, (*Machine).recover, "—"},
}

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	i := m.images[e.key]
	if i == nil {
		i = &image{key: e.key, bytes: e.bytes, pinned: e.pinned, readers: make(map[string]bool)}
	}
	row := m.find(i, e)
	if row == nil {
		return []Effect{Ignored{e.key, i.state, e.kind, "unexpected"}}
	}
	if row.do == nil {
		return []Effect{Ignored{e.key, i.state, e.kind, row.when.name}}
	}
	row.do(m, i, e)
	if row.to != same {
		i.state = row.to
	}
	m.keep(i)
	m.shrink()
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *Machine) find(i *image, e event) *row {
	for n := range table {
		row := &table[n]
		if row.on != e.kind || !slices.Contains(row.from, i.state) {
			continue
		}
		if row.when.holds == nil || row.when.holds(m, i, e) {
			return row
		}
	}
	return nil
}

// keep keeps an image unless it is absent.
func (m *Machine) keep(i *image) {
	if i.state == Absent {
		delete(m.images, i.key)
	} else {
		m.images[i.key] = i
	}
}
