// Package mutant is imported by code that tools/mutate has changed. The changes are numbered from 1, and the
// environment variable MUTANT selects the one that is in effect. With MUTANT=reach none is, and the process
// writes to standard error which of them each run reaches: if such a change were in effect, the run might
// differ. A run that does not reach a change does not differ with it.
package mutant

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
)

var active, _ = strconv.Atoi(os.Getenv("MUTANT")) // 0: no change is in effect

var reach = struct {
	sync.Mutex
	wanted bool
	in     map[int]bool // reached in this run
	rows   map[any][]rowChange
}{wanted: os.Getenv("MUTANT") == "reach", in: make(map[int]bool), rows: make(map[any][]rowChange)}

// rowChange is a change to a row of a table, which is reached if the row applies, or if its guard keeps
// it from that.
type rowChange struct {
	n       int
	applies bool
}

// Reached starts what the process writes when a run first reaches a change; its number follows.
const Reached = "mutant reached "

// Begin begins a run.
func Begin() {
	reach.Lock()
	defer reach.Unlock()
	clear(reach.in)
}

func note(n int) {
	if !reach.wanted {
		return
	}
	reach.Lock()
	defer reach.Unlock()
	noteLocked(n)
}

func noteLocked(n int) {
	if !reach.in[n] {
		reach.in[n] = true
		fmt.Fprintf(os.Stderr, "%s%d\n", Reached, n)
	}
}

// On reports whether a change is in effect.
func On(n int) bool {
	note(n)
	return n == active
}

// Or returns true instead of a condition if the change is in effect.
func Or(n int, condition bool) bool {
	if !condition {
		note(n)
	}
	return n == active || condition
}

// And returns false instead of a condition if the change is in effect.
func And(n int, condition bool) bool {
	if condition {
		note(n)
	}
	return n != active && condition
}

// Without returns all without element i if the change is in effect.
func Without[S ~[]E, E any](n, i int, all S) S {
	if On(n) {
		return slices.Delete(slices.Clone(all), i, i+1)
	}
	return all
}

// Swapped returns all with elements i and i+1 swapped if the change is in effect.
func Swapped[S ~[]E, E any](n, i int, all S) S {
	if On(n) {
		all = slices.Clone(all)
		all[i], all[i+1] = all[i+1], all[i]
	}
	return all
}

// WithoutRow returns the rows of a table without row i if the change is in effect.
func WithoutRow[S ~[]E, E any](n, i int, rows S) S {
	if ofRow(n, &rows[i], true) {
		return slices.Delete(slices.Clone(rows), i, i+1)
	}
	return rows
}

// Unguarded returns the rows of a table with row i without its guard if the change is in effect.
func Unguarded[S ~[]E, E any](n, i int, rows S) S {
	if ofRow(n, &rows[i], false) {
		rows = slices.Clone(rows)
		reflect.ValueOf(&rows[i]).Elem().FieldByName("When").SetZero()
	}
	return rows
}

// Entering returns the rows of a table in which row i enters another state if the change is in effect.
func Entering[S ~[]E, E, T any](n, i int, state T, rows S) S {
	if ofRow(n, &rows[i], true) {
		rows = slices.Clone(rows)
		reflect.ValueOf(&rows[i]).Elem().FieldByName("To").Set(reflect.ValueOf(state))
	}
	return rows
}

func ofRow(n int, row any, applies bool) bool {
	reach.Lock()
	defer reach.Unlock()
	reach.rows[row] = append(reach.rows[row], rowChange{n, applies})
	return n == active
}

// Row notes that a row of a table has applied, or that only its guard has kept it from that.
func Row(row any, applied bool) {
	if !reach.wanted {
		return
	}
	reach.Lock()
	defer reach.Unlock()
	for _, c := range reach.rows[row] {
		if c.applies == applied {
			noteLocked(c.n)
		}
	}
}
