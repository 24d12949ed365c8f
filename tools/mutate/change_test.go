package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// changesOf returns the changes to testdata/protocol.txt as a file of core.
func changesOf(t *testing.T) (source []byte, all []change) {
	t.Helper()
	source, err := os.ReadFile("testdata/protocol.txt")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("core/p", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("core/p/p.go", source, 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err = changesIn("core/p"); err != nil {
		t.Fatal(err)
	}
	return source, all
}

// TestChanges checks which changes a file has.
func TestChanges(t *testing.T) {
	_, all := changesOf(t)
	var got []string
	for _, c := range all {
		got = append(got, strconv.Itoa(c.line)+" "+string(c.kind)+": "+c.what)
	}
	want := []string{
		"11 row: drop row {[]int{1}, 2, fresh, 3}",
		"11 guard: drop guard fresh of row {[]int{1}, 2, fresh, 3}",
		"11 next: enter 1 in row {[]int{1}, 2, fresh, 3}",
		"12 row: drop row {[]int{1}, 2, nil, 1}",
		"12 next: enter 3 in row {[]int{1}, 2, nil, 1}",
		"13 row: drop row {[]int{3}, 4, nil, same}",
		"25 effect: drop m.emit(Send{e.id})",
		"25 swap: swap m.emit(Send{e.id}) and m.emit(Release{ e.id, // of the block })",
		"26 effect: drop m.emit(Release{ e.id, // of the block })",
		"29 release: drop m.unpin(e.id)",
		"30 release: drop m.held = nil",
		"22 check: drop the check of e.term < m.term || e.done",
		"22 check: drop e.term < m.term of e.term < m.term || e.done",
		"22 check: drop e.done of e.term < m.term || e.done",
		"22 stale: e.term < m.term always holds",
		"22 stale: e.term < m.term never holds",
		"32 effect: drop effect Wait{}",
		"32 swap: swap effects Wait{} and Answer{e.id}",
		"32 effect: drop effect Answer{e.id}",
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			t.Errorf("not wanted: %s", got[i])
		case i >= len(got):
			t.Errorf("missing: %s", want[i])
		case got[i] != want[i]:
			t.Errorf("%d is %q, want %q", i, got[i], want[i])
		}
	}
}

// TestInsert checks that all changes together, and each alone, leave a file that parses, with the
// first line of each declaration where it was.
func TestInsert(t *testing.T) {
	source, all := changesOf(t)
	parse := func(changes map[int]change) string {
		out := insert(source, changes)
		if _, err := parser.ParseFile(token.NewFileSet(), "p.go", out, 0); err != nil {
			t.Errorf("%v: %v\n%s", changes, err, out)
		}
		return string(out)
	}
	together := make(map[int]change)
	for i, c := range all {
		together[i+1] = c
		out := parse(map[int]change{i + 1: c})
		if !strings.Contains(out, "(#") && !strings.Contains(out, strconv.Itoa(i+1)) {
			t.Errorf("%s is not in the file:\n%s", c, out)
		}
	}
	out := parse(together)
	for i := range all {
		n := strconv.Itoa(i + 1)
		if !strings.Contains(out, "("+n+",") && !strings.Contains(out, "("+n+")") {
			t.Errorf("change %s of all is not in the file", n)
		}
	}
	if i := strings.Index(out, "\nfunc fresh"); strings.Count(out[:i+1], "\n") != 17 {
		t.Errorf("lines have moved:\n%s", out)
	}
}

// TestQueue checks that the seed alone decides the order, and that folders and kinds take turns.
func TestQueue(t *testing.T) {
	_, all := changesOf(t)
	other := make([]change, len(all))
	for i, c := range all {
		c.path = filepath.Join("core/q", "q.go")
		other[i] = c
	}
	of := func(seed uint64) []change {
		return queue(seed, [][]change{append([]change{}, all...), append([]change{}, other...)})
	}
	first, again, third := of(1), of(1), of(2)
	taken := make(map[kind]int)
	same := 0
	for i, c := range first {
		if c.String() != again[i].String() {
			t.Fatalf("change %d of seed 1 is %s, then %s", i, c, again[i])
		}
		if c.String() == third[i].String() {
			same++
		}
		if i > 0 && c.path == first[i-1].path {
			t.Errorf("changes %d and %d are in the same folder", i-1, i)
		}
		if i < 6 {
			taken[c.kind]++
		}
	}
	if same == len(first) {
		t.Error("seeds 1 and 2 select the same changes")
	}
	if len(taken) != 6 {
		t.Errorf("the first 6 changes are of %d kinds: %v", len(taken), taken)
	}
}

// TestCulprits checks that the changes in the lines of a compiler's messages are found.
func TestCulprits(t *testing.T) {
	all := []change{{path: "core/p/a.go", line: 3, last: 5}, {path: "core/p/b.go", line: 3, last: 5}}
	bad := culprits([]byte("# troupe/core/p\ncore/p/b.go:4:2: undefined: x\n"), all)
	if bad[0] || !bad[1] {
		t.Errorf("culprits: %v, want only the second", bad)
	}
}

// TestEquivalent checks that listed changes are left out wherever they are in their file.
func TestEquivalent(t *testing.T) {
	_, all := changesOf(t)
	left, err := withoutEquivalent(all, "# why\ncore/p/p.go | drop m.unpin(e.id) | it has no reader\n")
	if err != nil || len(left) != len(all)-1 || slices.ContainsFunc(left, func(c change) bool { return c.line == 29 }) {
		t.Errorf("%d of %d changes are left: %v", len(left), len(all), err)
	}
	if _, err := withoutEquivalent(all, "core/p/p.go | drop m.unpin(e.id)"); err == nil {
		t.Error("a change without a reason is accepted")
	}
}
