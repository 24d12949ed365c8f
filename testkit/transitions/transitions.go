// Package transitions checks the transition tables of the machines in core: that doc.go shows them as they
// are, and that each row can apply.
package transitions

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// Row is a row of a transition table.
type Row struct {
	On      string
	From    []string // states
	Guard   string   // empty: none
	Next    string   // empty: the same state
	Effects string
	// Always reports that the row has no guard that could fail.
	Always bool
	// Ignores reports that the row ignores the event. It needs a guard, as the reason, and no next
	// state.
	Ignores bool
}

// Documented checks that the package's doc.go has the table, in a comment. title is the heading of
// the states, and group returns the text for a group of them.
func Documented(t *testing.T, title string, rows []Row, group func(states []string) string) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if drawn := draw(title, rows, group); !strings.Contains(string(doc), drawn) {
		t.Errorf("doc.go lacks the transition table:\n%s", drawn)
	}
}

// List is the group of Documented that lists the states.
func List(states []string) string { return strings.Join(states, ", ") }

// draw formats a table as a comment.
func draw(title string, rows []Row, group func([]string) string) string {
	var lines, out strings.Builder
	w := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "event\t%s\tguard\tnext\teffects\n", title)
	for i, r := range rows {
		event, next := r.On, r.Next
		if i > 0 && r.On == rows[i-1].On {
			event = ""
		}
		if next == "" {
			next = "same"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", event, group(r.From), r.Guard, next, r.Effects)
	}
	_ = w.Flush() // a strings.Builder takes all
	for line := range strings.Lines(lines.String()) {
		out.WriteString(strings.TrimRight("//\t"+strings.TrimRight(line, " \n"), "\t") + "\n")
	}
	return out.String()
}

// Sound checks that no row is hidden behind an earlier one without a guard, and that rows that
// ignore an event have a reason and change no state.
func Sound(t *testing.T, rows []Row) {
	t.Helper()
	for _, fault := range faults(rows) {
		t.Error(fault)
	}
}

func faults(rows []Row) (all []string) {
	for i, r := range rows {
		for _, earlier := range rows[:i] {
			covers := !slices.ContainsFunc(r.From, func(s string) bool { return !slices.Contains(earlier.From, s) })
			if earlier.On == r.On && covers && earlier.Always {
				all = append(all, fmt.Sprintf("row %d (%s: %s) never applies", i, r.On, r.Effects))
			}
		}
		if r.Ignores && (r.Next != "" || r.Guard == "") {
			all = append(all,
				fmt.Sprintf("row %d (%s) ignores an event without a reason, or enters %s", i, r.On, r.Next))
		}
	}
	return all
}
