package table

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Line describes a row.
type Line struct {
	On      string
	From    []string // states
	Guard   string   // empty: none
	Next    string   // empty: the same state
	Effects string
	Ignores bool     // the row ignores the event
	In      []string // states in which the row has applied in this process, since the last Forget
}

// String returns what tells a row from the others of its table.
func (l Line) String() string {
	text := strings.Join(l.From, ",") + " " + l.On
	if l.Guard != "" {
		text += " (" + l.Guard + ")"
	}
	return text
}

// Reach tells which parts of a table have been reached in this process.
type Reach struct {
	Table  string
	Lines  []Line
	States []State
}

// State is a state that a table names.
type State struct {
	Name    string
	Reached bool // a row has applied in it, or entered it
}

// lister is a Table.
type lister interface {
	Name() string
	Lines() []Line
	forget()
}

// tables lists all tables of the process. See doc.go.
var tables struct {
	sync.Mutex
	all []lister
}

func register(t lister) {
	tables.Lock()
	defer tables.Unlock()
	if slices.ContainsFunc(tables.all, func(o lister) bool { return o.Name() == t.Name() }) {
		panic(fmt.Sprintf("table: there are two tables %q", t.Name()))
	}
	tables.all = append(tables.all, t)
}

// Reached lists all tables of the process by name, and what has been reached of each since the
// last Forget.
func Reached() (all []Reach) {
	tables.Lock()
	defer tables.Unlock()
	for _, t := range tables.all {
		r := Reach{Table: t.Name(), Lines: t.Lines()}
		for _, l := range r.Lines {
			for _, s := range l.From {
				r.note(s, slices.Contains(l.In, s))
			}
			if l.Next != "" {
				r.note(l.Next, len(l.In) > 0)
			}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Reach) int { return cmp.Compare(a.Table, b.Table) })
	return all
}

// Forget forgets what has been reached.
func Forget() {
	tables.Lock()
	defer tables.Unlock()
	for _, t := range tables.all {
		t.forget()
	}
}

func (t *Table[S, E, G, D]) forget() {
	for i := range t.entries {
		t.entries[i].in.Store(0)
	}
}

func (r *Reach) note(state string, reached bool) {
	i := slices.IndexFunc(r.States, func(s State) bool { return s.Name == state })
	if i < 0 {
		i, r.States = len(r.States), append(r.States, State{Name: state})
	}
	r.States[i].Reached = r.States[i].Reached || reached
}

// Name returns the name of the table.
func (t *Table[S, E, G, D]) Name() string { return t.name }

// Lines describes the rows.
func (t *Table[S, E, G, D]) Lines() (lines []Line) {
	for i := range t.entries {
		e := &t.entries[i]
		r, in := e.row, e.in.Load()
		do := reflect.ValueOf(r.Do)
		l := Line{On: r.On.String(), Guard: r.When.Name, Effects: r.Does,
			Ignores: do.Kind() == reflect.Func && do.IsNil()}
		for _, s := range r.From {
			l.From = append(l.From, s.String())
			if in&(1<<s) != 0 {
				l.In = append(l.In, s.String())
			}
		}
		if r.To != Same {
			l.Next = r.To.String()
		}
		lines = append(lines, l)
	}
	return lines
}
