package table

import (
	"fmt"
	"sync/atomic"
)

// Enum is a type of states or events. A table can have up to 32 states.
type Enum interface {
	~uint8
	fmt.Stringer
}

// Same, as the next state of a row, leaves the state unchanged.
const Same = 255

// Row is one transition: in any state of From, if event On arrives and When holds, the machine runs
// Do and enters state To. G is the type of conditions, and D that of actions.
type Row[S, E Enum, G, D any] = struct {
	From []S
	On   E
	When Guard[G]
	To   S
	Do   D      // a nil function: ignore the event, with the guard as the reason
	Does string // describes Do in doc.go
}

// Guard is a condition of a row. The zero value always holds.
type Guard[G any] = struct {
	Name  string
	Holds G
}

// Table is a transition table.
type Table[S, E Enum, G, D any] struct {
	name    string
	entries []entry[S, E, G, D]
	of      [][]*entry[S, E, G, D] // by event
}

type entry[S, E Enum, G, D any] struct {
	from uint32 // set of states
	row  *Row[S, E, G, D]
	in   atomic.Uint32 // set of the states in which the row has applied
}

// New returns the table of a machine. Its name is unique in the process.
func New[S, E Enum, G, D any](name string, rows []Row[S, E, G, D]) *Table[S, E, G, D] {
	t := &Table[S, E, G, D]{name: name, entries: make([]entry[S, E, G, D], len(rows))}
	for i := range rows {
		e := &t.entries[i]
		e.row = &rows[i]
		for _, s := range e.row.From {
			e.from |= 1 << s
		}
		for int(e.row.On) >= len(t.of) {
			t.of = append(t.of, nil)
		}
		t.of[e.row.On] = append(t.of[e.row.On], e)
	}
	register(t)
	return t
}

// Find returns the first row that fits an event in a state, or nil if none does. holds evaluates a
// condition.
func (t *Table[S, E, G, D]) Find(state S, on E, holds func(G) bool) *Row[S, E, G, D] {
	if int(on) >= len(t.of) {
		return nil
	}
	bit := uint32(1) << state
	for _, e := range t.of[on] {
		if e.from&bit == 0 || e.row.When.Name != "" && !holds(e.row.When.Holds) {
			continue
		}
		if e.in.Load()&bit == 0 {
			e.in.Or(bit)
		}
		return e.row
	}
	return nil
}
