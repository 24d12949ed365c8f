package device

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// TestDocHasTables checks that the three transition tables in doc.go match the code.
func TestDocHasTables(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, drawn := range []string{
		draw("state", leases, []Phase{Absent, Inspecting, Waiting, Loading, Resident, Freeing}),
		draw("KV memory", kvTable, []KV{Unused, Steady, Yielding, Resizing}),
		draw("adapters", adapterTable, []Adapters{None, Queued, Allocating, Leased}),
	} {
		if !strings.Contains(string(doc), drawn) {
			t.Errorf("doc.go lacks the table:\n%s", drawn)
		}
	}
}

type state interface {
	~uint8
	fmt.Stringer
}

// draw formats a table as a comment.
func draw[S state](title string, table []row[S], all []S) string {
	var lines, out strings.Builder
	w := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "event\t%s\tguard\tnext\teffects\n", title)
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
	_ = w.Flush()
	for line := range strings.Lines(lines.String()) {
		out.WriteString("//\t" + strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}

// group formats a group of states: three or more consecutive ones by the first and the last.
func group[S state](states, all []S) string {
	at := slices.Index(all, states[0])
	if n := len(states); n > 2 && at+n <= len(all) && slices.Equal(states, all[at:at+n]) {
		return states[0].String() + " … " + states[n-1].String()
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
	checkSound(t, leases)
	checkSound(t, kvTable)
	checkSound(t, adapterTable)
}

func checkSound[S state](t *testing.T, table []row[S]) {
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
