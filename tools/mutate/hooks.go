package main

// hooks are inserted beside the changes: the test tells package mutant when a run begins, and which
// rows of tables apply.
var hooks = []struct{ path, after, text string }{
	{"testkit/dst/run.go", "func Run(o Options) Result {", " mutant.Begin();"},
	{"core/table/table.go", `!holds(e.row.When.Holds) {`,
		" if e.from&bit != 0 { mutant.Row(e.row, false) };"},
	{"core/table/table.go", "func (t *Table[S, E, G, D]) Find(state S, on E, holds func(G) bool) *Row[S, E, G, D] {",
		" found := t.find(state, on, holds); if found != nil { mutant.Row(found, true) }; return found }; " +
			"func (t *Table[S, E, G, D]) find(state S, on E, holds func(G) bool) *Row[S, E, G, D] {"},
}
