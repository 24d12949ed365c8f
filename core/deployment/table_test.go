package deployment

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestTablesAreDocumented checks that doc.go has the rows of both tables, in order.
func TestTablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for row := range strings.Lines(string(text)) {
		words := strings.Fields(strings.TrimPrefix(row, "//"))
		if strings.HasPrefix(row, "//\t") && words[0] != "phase" && words[0] != "state" {
			rows = append(rows, strings.Join(words, " "))
		}
	}
	var want []string
	for _, tr := range table {
		var from []string
		for p := Absent; p <= Stopping; p++ {
			if tr.from.has(p) {
				from = append(from, p.String())
			}
		}
		to := "same"
		if tr.to != same {
			to = tr.to.String()
		}
		want = append(want, fmt.Sprint(strings.Join(from, ","), " ", tr.on, " ", tr.when, " ", to))
	}
	for s := Unknown; s < Fenced; s++ {
		for c := applied; c <= outdated; c++ {
			if to, ok := states[s][c]; ok {
				want = append(want, fmt.Sprint(s, " ", c, " ", to))
			}
		}
	}
	for i := range max(len(rows), len(want)) {
		switch {
		case i >= len(rows) || i < len(want) && rows[i] != want[i]:
			t.Fatalf("row %d of doc.go is not %q", i+1, want[i])
		case i >= len(want):
			t.Fatalf("doc.go has a row that the tables lack: %q", rows[i])
		}
	}
}

// TestTableIsUnambiguous checks that no row hides a later one, and that a row that keeps the phase
// uses same.
func TestTableIsUnambiguous(t *testing.T) {
	type key struct {
		p    Phase
		on   Trigger
		when guard
	}
	seen := make(map[key]bool)
	for i, tr := range table {
		for p := Absent; p <= Stopping; p++ {
			if !tr.from.has(p) {
				continue
			}
			if seen[key{p, tr.on, always}] || seen[key{p, tr.on, tr.when}] {
				t.Errorf("row %d is hidden in phase %v", i+1, p)
			}
			seen[key{p, tr.on, tr.when}] = true
			if tr.to == p {
				t.Errorf("row %d leads from %v to itself", i+1, p)
			}
		}
	}
}
