package hostcache

import (
	"testing"

	"troupe/testkit/transitions"
)

// rows returns the transition table for its checks.
func rows() (all []transitions.Row) {
	for _, r := range table {
		row := transitions.Row{On: r.on.String(), Guard: r.when.name, Effects: r.does,
			Always: r.when.holds == nil, Ignores: r.do == nil}
		for _, s := range r.from {
			row.From = append(row.From, s.String())
		}
		if r.to != same {
			row.Next = r.to.String()
		}
		all = append(all, row)
	}
	return all
}

// TestDocHasTable checks that the transition table in doc.go matches the code.
func TestDocHasTable(t *testing.T) { transitions.Documented(t, "state", rows(), transitions.List) }

// TestTableIsSound checks that no row is hidden behind an earlier one without a guard, and that rows
// that ignore an event have a reason and change no state.
func TestTableIsSound(t *testing.T) { transitions.Sound(t, rows()) }
