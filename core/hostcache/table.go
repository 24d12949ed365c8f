package hostcache

import "troupe/core/table"

type (
	condition = func(*Machine, *image, event) bool
	action    = func(*Machine, *image, event)

	row   = table.Row[State, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	absent  = []State{Absent}
	filling = []State{Filling}
	ready   = []State{Ready}
	revoked = []State{Revoked}
	there   = []State{Filling, Ready}
)

var (
	always    = guard{}
	noRoom    = guard{"no room", func(m *Machine, _ *image, e event) bool { return m.roomFor(e.bytes) < 0 }}
	duplicate = guard{"already there", func(m *Machine, i *image, e event) bool {
		return i.named(e.digest) != i.key && m.images[i.named(e.digest)] != nil
	}}
	notOpen = guard{"was not open", func(_ *Machine, i *image, e event) bool { return !i.readers[e.reader] }}
	inUse   = guard{"in use", func(_ *Machine, i *image, _ event) bool { return len(i.readers) > 0 }}
	named   = guard{"has other names", func(m *Machine, i *image, _ event) bool { return len(m.namesOf(i)) > 1 }}
	others  = guard{"others use it", func(_ *Machine, i *image, _ event) bool { return len(i.readers) > 1 }}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("hostcache", []row{
	{absent, evFill, noRoom, same, (*Machine).refuse, "refuse"},
	{absent, evFill, always, Filling, (*Machine).reserve, "evict others; reserve"},
	{ready, evFill, always, same, (*Machine).use, "note the use"},

	{filling, evFilled, duplicate, Absent, (*Machine).merge, "attach its names to the other; free; proceed"},
	{filling, evFilled, always, Ready, (*Machine).filled, "name it by its content; proceed"},
	{revoked, evFilled, inUse, same, nil, "ignore"},
	{revoked, evFilled, always, Absent, (*Machine).free, "free"},
	{filling, evFailed, always, Absent, (*Machine).free, "free; proceed"},
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

	{filling, evAwait, always, same, (*Machine).await, "note the waiter"},

	{there, evName, always, same, (*Machine).attach, "attach the name"},
	{there, evForget, named, same, (*Machine).detach, "—"},
	{filling, evForget, always, Revoked, (*Machine).unnamed, "proceed"},
	{ready, evForget, inUse, Revoked, (*Machine).unnamed, "—"},
	{ready, evForget, always, Absent, (*Machine).free, "free"},

	{filling, evRevoke, always, Revoked, (*Machine).revoke, "proceed"},
	{ready, evRevoke, inUse, Revoked, (*Machine).revoke, "—"},
	{ready, evRevoke, always, Absent, (*Machine).free, "free"},

	{absent, evRecovered, always, Ready, (*Machine).recover, "—"},
})

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	i := m.images[e.key]
	if i == nil {
		i = &image{key: e.key, bytes: e.bytes, pinned: e.pinned, readers: make(map[string]bool)}
	}
	row := rows.Find(i.state, e.kind, func(holds condition) bool { return holds(m, i, e) })
	if row == nil {
		return []Effect{Ignored{e.key, i.state, e.kind, "unexpected"}}
	}
	if row.Do == nil {
		return []Effect{Ignored{e.key, i.state, e.kind, row.When.Name}}
	}
	from := i.state
	row.Do(m, i, e)
	if row.To != same {
		i.state = row.To
	}
	m.leave(i, from)
	m.keep(i)
	m.shrink()
	effects := m.effects
	m.effects = nil
	return effects
}

// keep keeps an image unless it is absent.
func (m *Machine) keep(i *image) {
	if i.state == Absent {
		delete(m.images, i.key)
	} else {
		m.images[i.key] = i
	}
}
