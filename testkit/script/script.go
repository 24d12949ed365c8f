// Package script runs scripted tests: text files of events with the effects that follow each.
//
// An unindented line is an event. The indented lines below it are what the test's handler returned
// for it. Lines that begin with # and empty lines are comments. With -update the effects are
// rewritten; read the difference before you commit it.
package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the effects in scripts")

const indent = "  "

// Handler carries out one event, given as words, and returns its effects, a line each.
type Handler func(event []string) []string

// Run runs each script that matches a pattern as a subtest, with a handler of its own.
func Run(t *testing.T, pattern string, start func(*testing.T) Handler) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("scripts %s: %d files, %v", pattern, len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { runFile(t, path, start(t)) })
	}
}

func runFile(t *testing.T, path string, handle Handler) {
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := play(string(want), handle)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; run with -update and review the difference:\n%s", path, diff)
	}
}

// play returns a script with the effects that follow its events.
func play(text string, handle Handler) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, indent) {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, effect := range handle(strings.Fields(line)) {
			out.WriteString(indent + effect + "\n")
		}
	}
	return out.String()
}
