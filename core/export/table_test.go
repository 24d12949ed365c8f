package export

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// TestDocHasTable checks that the transition table in doc.go matches the code.
func TestDocHasTable(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if drawn := draw(); !strings.Contains(string(doc), drawn) {
		t.Errorf("doc.go lacks the transition table:\n%s", drawn)
	}
}

// draw formats the table as a comment.
func draw() string {
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

// group formats a group of states.
func group(states []State) string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = s.String()
	}
	return strings.Join(names, ", ")
}

// TestTableIsSound checks that no row is hidden behind an earlier one without a guard.
func TestTableIsSound(t *testing.T) {
	for i, r := range table {
		for _, earlier := range table[:i] {
			covers := !slices.ContainsFunc(r.from, func(s State) bool { return !slices.Contains(earlier.from, s) })
			if earlier.on == r.on && covers && earlier.when.holds == nil {
				t.Errorf("row %d (%s: %s) never applies", i, r.on, r.does)
			}
		}
	}
}
