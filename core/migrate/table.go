package migrate

import "slices"

// row is one transition of an attempt A of machine M. In any state of from, if event on arrives and
// guard when holds, the machine runs do and enters state to.
type row[S ~uint8, M, A any] struct {
	from []S
	on   Event
	when guard[M, A]
	to   S
	do   func(*M, *A, event) // nil: ignore the event and report the guard as the reason
	does string              // describes do in the table of doc.go
}

// guard is a condition of a transition. The zero value always holds.
type guard[M, A any] struct {
	name  string
	holds func(*M, *A, event) bool
}

// same, as the next state of a row, leaves the state unchanged.
const same = 255

// find returns the first row that fits, or nil.
func find[S ~uint8, M, A any](table []row[S, M, A], state S, m *M, a *A, e event) *row[S, M, A] {
	for i := range table {
		r := &table[i]
		if r.on == e.kind && slices.Contains(r.from, state) && (r.when.holds == nil || r.when.holds(m, a, e)) {
			return r
		}
	}
	return nil
}
