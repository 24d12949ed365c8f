package tier

import (
	"os"
	"strings"
	"testing"
)

// TestDocHasTable checks that the transition table in doc.go matches the code.
func TestDocHasTable(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "//\t") {
			rows = append(rows, strings.Join(strings.Fields(strings.TrimPrefix(line, "//")), " "))
		}
	}
	want := []string{"object state trigger next effects"}
	for _, tr := range table {
		var from []string
		for _, s := range tr.from {
			from = append(from, s.String())
		}
		want = append(want, strings.Join([]string{
			tr.of.String(), strings.Join(from, ","), tr.on.String(), tr.to.String(), tr.does,
		}, " "))
	}
	for i := range max(len(rows), len(want)) {
		switch {
		case i >= len(rows) || i < len(want) && rows[i] != want[i]:
			t.Fatalf("row %d of doc.go is not %q", i, want[i])
		case i >= len(want):
			t.Fatalf("doc.go has a row that the table lacks: %q", rows[i])
		}
	}
}

// TestTableIsUnambiguous checks that no row hides a later one.
func TestTableIsUnambiguous(t *testing.T) {
	type key struct {
		of   Object
		from State
		on   Trigger
	}
	seen := make(map[key]bool)
	for i, tr := range table {
		for _, s := range tr.from {
			if k := (key{tr.of, s, tr.on}); seen[k] {
				t.Errorf("row %d is hidden in state %s", i+1, s)
			} else {
				seen[k] = true
			}
		}
	}
}
