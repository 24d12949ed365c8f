package troupe

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	lockUse = regexp.MustCompile(`\bsync\.(RWMutex|Mutex|Map)\b`)
	holder  = regexp.MustCompile(`(?m)^(?:type|func|var) (?:\([^)]*\) )?(\w+)`)
)

// lockHolders returns the types, functions and variables of a file that have locks.
func lockHolders(source string) (names []string) {
	for _, at := range lockUse.FindAllStringIndex(source, -1) {
		line := source[strings.LastIndexByte(source[:at[0]], '\n')+1 : at[0]]
		if strings.Contains(line, "//") {
			continue
		}
		all := holder.FindAllStringSubmatch(source[:at[0]], -1)
		names = append(names, all[len(all)-1][1])
	}
	return names
}

// TestLocksAreListed checks that ADR 041 has a row for each lock in core, engine and actors.
func TestLocksAreListed(t *testing.T) {
	adr, err := os.ReadFile("docs/adr/041-what-is-locked.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, root := range []string{"core", "engine", "actors"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, name := range lockHolders(string(b)) {
				if found++; !regexp.MustCompile(`\b` + name + `s?\b`).Match(adr) {
					t.Errorf("%s: the lock of %s is not in ADR 041", path, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("only %d locks found", found)
	}
}

func TestLockHolders(t *testing.T) {
	got := lockHolders("package p\n\n// With a sync.Mutex\ntype a struct {\n\tmu sync.Mutex\n}\n\nfunc (a *a) b() {\n" +
		"\tvar mu sync.RWMutex\n}\n\nvar c struct {\n\tsync.Map\n}\n")
	if strings.Join(got, " ") != "a b c" {
		t.Error(got)
	}
}
