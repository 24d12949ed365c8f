package replica

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// TestDocHasTables checks that the transition tables in doc.go match the code.
func TestDocHasTables(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, drawn := range []string{
		draw(lifeTable, anyState, sameState), draw(stepTable, anyStep, sameStep),
		draw(memoryTable, anyMemory, sameMemory), draw(leaseTable, anyLease, sameLease),
	} {
		if !strings.Contains(string(doc), drawn) {
			t.Errorf("doc.go lacks this table:\n%s", drawn)
		}
	}
}

// draw formats a table as a comment.
func draw[S state](table []row[S], all []S, same S) string {
	var lines, out strings.Builder
	w := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "event\tstate\tguard\tnext\teffects")
	for i, r := range table {
		event, next := r.on.String(), "same"
		if i > 0 && r.on == table[i-1].on {
			event = ""
		}
		if r.to != same {
			next = r.to.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", event, group(r.from, all), r.when.name, next, r.does)
	}
	w.Flush()
	for line := range strings.Lines(lines.String()) {
		out.WriteString(strings.TrimRight("//\t"+strings.TrimRight(line, " \n"), "\t") + "\n")
	}
	return out.String()
}

// group formats a group of states.
func group[S state](states, all []S) string {
	if slices.Equal(states, all) {
		return "any"
	}
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = s.String()
	}
	return strings.Join(names, ", ")
}

// TestTablesAreSound checks that no row is hidden behind an earlier one without a guard, and that
// rows that ignore an event have a reason and change no state.
func TestTablesAreSound(t *testing.T) {
	sound(t, lifeTable, sameState)
	sound(t, stepTable, sameStep)
	sound(t, memoryTable, sameMemory)
	sound(t, leaseTable, sameLease)
}

func sound[S state](t *testing.T, table []row[S], same S) {
	t.Helper()
	for i, r := range table {
		for _, earlier := range table[:i] {
			covers := !slices.ContainsFunc(r.from, func(s S) bool { return !slices.Contains(earlier.from, s) })
			if earlier.on == r.on && covers && earlier.when.holds == nil {
				t.Errorf("row %d (%s: %s) never applies", i, r.on, r.does)
			}
		}
		if r.do == nil && (r.to != same || r.when.name == "") {
			t.Errorf("row %d (%s) ignores an event without a reason, or enters %s", i, r.on, r.to)
		}
	}
}
