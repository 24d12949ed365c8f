package lora

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// TestDocHasPinTable checks that the transition table of pins in doc.go matches the code.
func TestDocHasPinTable(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if drawn := drawPins(); !strings.Contains(string(doc), drawn) {
		t.Errorf("doc.go lacks the transition table:\n%s", drawn)
	}
}

// drawPins formats the table of pins as a comment.
func drawPins() string {
	var lines, out strings.Builder
	w := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "event\tstate\tguard\tnext\teffects")
	for i, r := range pinTable {
		event, next := r.on.String(), "same"
		if i > 0 && r.on == pinTable[i-1].on {
			event = ""
		}
		if r.to != pinSame {
			next = r.to.String()
		}
		names := make([]string, len(r.from))
		for i, s := range r.from {
			names[i] = s.String()
		}
		from := strings.Join(names, ", ")
		if slices.Equal(r.from, attached) {
			from = "requested … no-room"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", event, from, r.when.name, next, r.does)
	}
	w.Flush()
	for line := range strings.Lines(lines.String()) {
		out.WriteString(strings.TrimRight("//\t"+strings.TrimRight(line, " \n"), "\t") + "\n")
	}
	return out.String()
}
