// Package transitions checks the transition tables of the machines in core by their rows alone, without
// running a machine: that doc.go shows them as they are (Documented), that no row is hidden by a single earlier
// row without a guard (Sound), that each event has a row in each state (Total), and that each state is entered
// and left (Connected).
//
// It does not check that each row can apply. It does not find a row that several earlier ones hide together,
// or a row whose guard never holds. The tests of the machines, and the list of rows that testkit/dst does not
// reach, show which rows apply.
package transitions

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"troupe/core/table"
)

// Table is a table.Table.
type Table interface{ Lines() []table.Line }

// Group returns the text for a group of states in doc.go.
type Group func(states []string) string

// List is the Group that lists the states.
func List(states []string) string { return strings.Join(states, ", ") }

// Named is the Group that gives names to some groups of states, and lists others.
func Named[S fmt.Stringer](groups map[string][]S) Group {
	names := make(map[string]string)
	for name, states := range groups {
		var all []string
		for _, s := range states {
			all = append(all, s.String())
		}
		names[List(all)] = name
	}
	return func(states []string) string {
		if name, ok := names[List(states)]; ok {
			return name
		}
		return List(states)
	}
}

// Documented checks that the package's doc.go has the table, in a comment. title is the heading of
// the states.
func Documented(t *testing.T, title string, of Table, group Group) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if drawn := draw(title, of.Lines(), group); !strings.Contains(string(doc), drawn) {
		t.Errorf("doc.go lacks the transition table:\n%s", drawn)
	}
}

// draw formats a table as a comment. It has no column for guards or effects if it has none.
func draw(title string, rows []table.Line, group Group) string {
	var lines, out strings.Builder
	w := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	guards := slices.ContainsFunc(rows, func(r table.Line) bool { return r.Guard != "" })
	effects := slices.ContainsFunc(rows, func(r table.Line) bool { return r.Effects != "" })
	write := func(event, states, guard, next, effect string) {
		cells := []string{event, states}
		if guards {
			cells = append(cells, guard)
		}
		if cells = append(cells, next); effects {
			cells = append(cells, effect)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	write("event", title, "guard", "next", "effects")
	for i, r := range rows {
		event, next := r.On, r.Next
		if i > 0 && r.On == rows[i-1].On {
			event = ""
		}
		if next == "" {
			next = "same"
		}
		write(event, group(r.From), r.Guard, next, r.Effects)
	}
	_ = w.Flush() // a strings.Builder takes all
	for line := range strings.Lines(lines.String()) {
		out.WriteString(strings.TrimRight("//\t"+strings.TrimRight(line, " \n"), "\t") + "\n")
	}
	return out.String()
}

// Sound checks that no row is hidden by one earlier row: one for the same event, without a guard, and with all
// of its states. It also checks that rows that ignore an event have a guard as their reason, and change no state.
func Sound(t *testing.T, tables ...Table) {
	t.Helper()
	for _, of := range tables {
		for _, fault := range faults(of.Lines()) {
			t.Error(fault)
		}
	}
}

func faults(rows []table.Line) (all []string) {
	for i, r := range rows {
		for _, earlier := range rows[:i] {
			if earlier.On == r.On && earlier.Guard == "" && within(r.From, earlier.From) {
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

func within(states, others []string) bool {
	return !slices.ContainsFunc(states, func(s string) bool { return !slices.Contains(others, s) })
}

// Total checks that each event that a table names has a row without a guard in every state but
// those that are exempt.
func Total[S fmt.Stringer](t *testing.T, of Table, exempt ...S) {
	t.Helper()
	for _, fault := range gaps(of.Lines(), exempt...) {
		t.Error(fault)
	}
}

func gaps[S fmt.Stringer](rows []table.Line, exempt ...S) (all []string) {
	covered := make(map[string][]string)
	var events, states []string
	for _, r := range rows {
		if !slices.Contains(events, r.On) {
			events = append(events, r.On)
		}
		for _, s := range r.From {
			if !slices.Contains(states, s) {
				states = append(states, s)
			}
			if r.Guard == "" {
				covered[r.On] = append(covered[r.On], s)
			}
		}
	}
	for _, s := range exempt {
		states = slices.DeleteFunc(states, func(name string) bool { return name == s.String() })
	}
	for _, on := range events {
		for _, s := range states {
			if !slices.Contains(covered[on], s) {
				all = append(all, fmt.Sprintf("%s has no row for %s", on, s))
			}
		}
	}
	return all
}

// Connected checks that each state is entered and left.
func Connected[S fmt.Stringer](t *testing.T, of Table, states ...S) {
	t.Helper()
	for _, fault := range dead(of.Lines(), states...) {
		t.Error(fault)
	}
}

func dead[S fmt.Stringer](rows []table.Line, states ...S) (all []string) {
	for _, s := range states {
		entered := slices.ContainsFunc(rows, func(r table.Line) bool { return r.Next == s.String() })
		left := slices.ContainsFunc(rows, func(r table.Line) bool {
			return r.Next != "" && slices.Contains(r.From, s.String())
		})
		if !entered || !left {
			all = append(all, fmt.Sprintf("state %s: entered %v, left %v", s, entered, left))
		}
	}
	return all
}
