package device

import "troupe/core/table"

type (
	condition = func(*Memory, *holder, event) bool
	action    = func(*Memory, *holder, event)

	// row is one transition of a lease, of its KV memory or of its adapter memory.
	row[S table.Enum] = table.Row[S, Event, condition, action]
	guard             = table.Guard[condition]
)

const same = table.Same

var always = guard{}

// apply applies the first row of a table that fits an event to a state of a lease.
func apply[S table.Enum](m *Memory, h *holder, of *table.Table[S, Event, condition, action], state *S, e event) {
	r := of.Find(*state, e.kind, func(holds condition) bool { return holds(m, h, e) })
	switch {
	case r == nil:
		m.emit(Ignored{h.lease, e.kind, (*state).String(), "unexpected"})
		return
	case r.Do == nil:
		m.emit(Ignored{h.lease, e.kind, (*state).String(), r.When.Name})
		return
	}
	r.Do(m, h, e)
	if r.To != same {
		*state = r.To
	}
}
