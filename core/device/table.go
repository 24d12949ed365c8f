package device

import (
	"fmt"
	"slices"
)

// row is one transition of a lease, of its KV memory or of its adapter memory. In any state of
// from, if event on arrives and guard when holds, the machine runs do and enters state to.
type row[S ~uint8] struct {
	from []S
	on   Event
	when guard
	to   S
	do   func(*Memory, *holder, event) // nil: ignore the event and report the guard as the reason
	does string                        // describes do in the table of doc.go
}

// guard is a condition of a transition. The zero value always holds.
type guard struct {
	name  string
	holds func(*Memory, *holder, event) bool
}

// same, as the next state of a row, leaves the state unchanged.
const same = 255

var always = guard{}

// apply applies the first row of a table that fits an event to a state of a lease.
func apply[S interface {
	~uint8
	fmt.Stringer
}](m *Memory, h *holder, table []row[S], state *S, e event) {
	for i := range table {
		r := &table[i]
		if r.on != e.kind || !slices.Contains(r.from, *state) || r.when.holds != nil && !r.when.holds(m, h, e) {
			continue
		}
		if r.do == nil {
			m.emit(Ignored{h.lease, e.kind, (*state).String(), r.when.name})
			return
		}
		r.do(m, h, e)
		if r.to != same {
			*state = r.to
		}
		return
	}
	m.emit(Ignored{h.lease, e.kind, (*state).String(), "unexpected"})
}
