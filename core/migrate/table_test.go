package migrate

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
	for _, drawn := range []string{draw(sourceTable), draw(targetTable)} {
		if !strings.Contains(string(doc), drawn) {
			t.Errorf("doc.go lacks the transition table:\n%s", drawn)
		}
	}
}

type state interface {
	~uint8
	String() string
}

// draw formats a table as a comment.
func draw[S state, M, A any](table []row[S, M, A]) string {
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", event, group(r.from), r.when.name, next, r.does)
	}
	w.Flush()
	for line := range strings.Lines(lines.String()) {
		out.WriteString(strings.TrimRight("//\t"+strings.TrimRight(line, " \n"), "\t") + "\n")
	}
	return out.String()
}

// group formats a group of states: consecutive ones by the first and the last.
func group[S state](states []S) string {
	if n := len(states); n > 3 && int(states[n-1])-int(states[0]) == n-1 {
		return states[0].String() + " … " + states[n-1].String()
	}
	switch fmt.Sprint(states) {
	case fmt.Sprint(sinkless):
		return "without a transfer"
	case fmt.Sprint(unknown):
		return "any other"
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
	checkSound(t, sourceTable)
	checkSound(t, targetTable)
}

func checkSound[S state, M, A any](t *testing.T, table []row[S, M, A]) {
	for i, r := range table {
		for _, earlier := range table[:i] {
			covers := !slices.ContainsFunc(r.from, func(s S) bool { return !slices.Contains(earlier.from, s) })
			if earlier.on == r.on && covers && earlier.when.holds == nil {
				t.Errorf("row %d (%s: %s) never applies", i, r.on, r.does)
			}
		}
		if r.do == nil && (r.to != same || r.when.name == "") {
			t.Errorf("row %d (%s) ignores an event without a reason, or enters %d", i, r.on, r.to)
		}
	}
}
