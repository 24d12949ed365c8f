package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package p

func f(a, b int, g func(int)) {
	if a < b && b > 0 {
		g(a)
		g(b)
	}
	switch {
	case a == b:
		b = 2
	}
	g(b)
}
`

// TestChanges checks which changes a file has, and that each change results in a different file.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := changesIn([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	var what []string
	seen := map[string]string{}
	for _, c := range all {
		what = append(what, c.what)
		out, err := c.apply()
		if err != nil {
			t.Fatal(err)
		}
		if string(out) == source {
			t.Errorf("%s changes nothing", c)
		}
		if other, ok := seen[string(out)]; ok {
			t.Errorf("%s is the same as %s", c, other)
		}
		seen[string(out)] = c.what
	}
	want := []string{
		"leave out g(b)", "negate a < b && b > 0", "keep only a < b of a < b && b > 0",
		"keep only b > 0 of a < b && b > 0", "< becomes <= in a < b", "> becomes >= in b > 0", "leave out g(a)",
		"swap g(a) with the next", "leave out g(b)", "leave out b = 2", "== becomes != in a == b",
	}
	if got := strings.Join(what, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("changes:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}
