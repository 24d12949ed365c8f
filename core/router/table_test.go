package router

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
	for _, drawn := range []string{draw(syncTable), draw(contactTable), draw(phaseTable)} {
		if !strings.Contains(string(doc), drawn) {
			t.Errorf("doc.go lacks the transition table:\n%s", drawn)
		}
	}
}

// draw formats a table as a comment.
func draw[S state](table []row[S]) string {
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

type state interface {
	~uint8
	fmt.Stringer
}

// group formats a group of states.
func group[S state](states []S) string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = s.String()
	}
	switch text := strings.Join(names, ", "); text {
	case "unheard, heard, silent", "starting, catching-up, ready":
		return "any"
	case "syncing, synced, lagging":
		return "member"
	default:
		return text
	}
}

// TestTablesAreSound checks that no row is hidden behind an earlier one without a guard, that rows
// that ignore an event have a reason and change no state, and that each event that a table names has
// a row without a guard in every state but absent.
func TestTablesAreSound(t *testing.T) {
	checkSound(t, syncTable, members)
	checkSound(t, contactTable, contacts)
	checkSound(t, phaseTable, phases)
}

func checkSound[S state](t *testing.T, table []row[S], all []S) {
	t.Helper()
	total := make(map[Event][]S)
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
		if total[r.on] = append(total[r.on], nil...); r.when.holds == nil {
			total[r.on] = append(total[r.on], r.from...)
		}
	}
	for on, covered := range total {
		for _, s := range all {
			if !slices.Contains(covered, s) {
				t.Errorf("%s has no row for %s", on, s)
			}
		}
	}
}
