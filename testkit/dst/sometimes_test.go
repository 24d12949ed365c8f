package dst_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"troupe/core/table"
	"troupe/testkit/dst"
)

var update = flag.Bool("update", false, "rewrite "+unreachedFile+", if all tests run as in the suite and pass")

const unreachedFile = "testdata/unreached.txt"

// TestMain compares what the tests of this package have reached with testdata/unreached.txt, once
// all of them have run with the seeds of the suite. Seeds are deterministic, so the comparison is.
func TestMain(m *testing.M) {
	flag.Parse()
	oneProcessor()
	code := m.Run()
	if testing.Verbose() {
		for _, s := range dst.Sights() {
			if !s.Seen {
				fmt.Println("never reached:", s.Name)
			}
		}
	}
	if code == 0 && entireSuite() {
		if err := checkUnreached(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// oneProcessor keeps the Go runtime from waking a second thread for each of the goroutines of a cluster, of
// which only one runs at a time, and lets garbage grow larger than the few megabytes that a cluster uses.
// GOMAXPROCS and GOGC override it.
func oneProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// entireSuite reports whether the flags let all tests run as in the suite.
func entireSuite() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "seed", "seeds", "from", "nodes", "faults",
		"burst", "only", "pick", "wide", "quiet"} {
		if f := flag.Lookup(name); f.Value.String() != f.DefValue {
			return false
		}
	}
	return true
}

// section is a part of unreached.txt: a reason, and what is not reached for that reason.
type section struct {
	reason string
	names  []string
}

// seldom marks the section of what some seeds reach, but not always those of the suite. Its names
// may be reached or not.
const seldom = "Seldom"

// unknown is the reason that -update gives.
const unknown = "Not reached since the last -update; write down why."

func readSections(file string) (head string, all []section, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	for i, part := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		if i == 0 {
			head = part
			continue
		}
		var s section
		for line := range strings.Lines(part) {
			line = strings.TrimSpace(line)
			if reason, ok := strings.CutPrefix(line, "# "); ok {
				s.reason = strings.TrimPrefix(s.reason+"\n# "+reason, "\n# ")
			} else {
				s.names = append(s.names, line)
			}
		}
		all = append(all, s)
	}
	return head, all, nil
}

// checkUnreached compares what was not reached with the file.
func checkUnreached() error {
	head, sections, err := readSections(unreachedFile)
	if err != nil {
		return err
	}
	missing, stale, twice := compare(sections, dst.Sights())
	if len(missing)+len(stale)+len(twice) == 0 {
		return nil
	}
	if *update && len(twice) == 0 { // which of two reasons is right is for the author to decide
		return writeUnreached(head, sections, missing, stale)
	}
	return fmt.Errorf("--- FAIL: %s differs from what the tests reach; find out why, or run with -update\n"+
		"no longer reached:\n\t%s\nreached now, or gone:\n\t%s\nlisted twice, delete one:\n\t%s", unreachedFile,
		strings.Join(missing, "\n\t"), strings.Join(stale, "\n\t"), strings.Join(twice, "\n\t"))
}

// compare returns what was not reached and is not in the file, what is in the file and was reached or
// does not exist, and what is in the file twice.
func compare(sections []section, sights []dst.Sight) (missing, stale, twice []string) {
	listed := make(map[string]bool)
	for _, s := range sections {
		for _, name := range s.names {
			if listed[name] {
				twice = append(twice, name)
				continue
			}
			i := slices.IndexFunc(sights, func(s dst.Sight) bool { return s.Name == name })
			if listed[name] = true; i < 0 || sights[i].Seen && !strings.HasPrefix(s.reason, seldom) {
				stale = append(stale, name)
			}
		}
	}
	for _, s := range sights {
		if !s.Seen && !listed[s.Name] {
			missing = append(missing, s.Name)
		}
	}
	return missing, stale, twice
}

func writeUnreached(head string, sections []section, missing, stale []string) error {
	i := slices.IndexFunc(sections, func(s section) bool { return s.reason == unknown })
	if i < 0 {
		i, sections = len(sections), append(sections, section{reason: unknown})
	}
	sections[i].names = append(sections[i].names, missing...)
	var out strings.Builder
	out.WriteString(head + "\n")
	for _, s := range sections {
		s.names = slices.DeleteFunc(s.names, func(name string) bool { return slices.Contains(stale, name) })
		if slices.Sort(s.names); len(s.names) > 0 {
			fmt.Fprintf(&out, "\n# %s\n%s\n", s.reason, strings.Join(s.names, "\n"))
		}
	}
	return os.WriteFile(unreachedFile, []byte(out.String()), 0o644)
}

// TestCompare checks what the comparison finds.
func TestCompare(t *testing.T) {
	sights := []dst.Sight{{"a", true}, {"b", false}, {"c", false}, {"d", true}, {"e", true}}
	missing, stale, twice := compare([]section{
		{"never", []string{"b", "d", "gone"}}, {seldom + ": by luck", []string{"e"}}, {"another reason", []string{"b"}},
	}, sights)
	if !slices.Equal(missing, []string{"c"}) || !slices.Equal(stale, []string{"d", "gone"}) ||
		!slices.Equal(twice, []string{"b"}) {
		t.Errorf("missing %v, stale %v, twice %v", missing, stale, twice)
	}
}

// unlinked are the tables of machines that no actor uses yet.
var unlinked []string

// TestAllTablesRun checks that the machine of every transition table of core runs in the cluster.
func TestAllTablesRun(t *testing.T) {
	linked := make(map[string]bool)
	for _, r := range table.Reached() {
		linked[r.Table] = true
	}
	declaration := regexp.MustCompile(`table\.New\("([^"]+)"`)
	declared := 0
	err := filepath.WalkDir("../../core", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range declaration.FindAllStringSubmatch(string(text), -1) {
			if declared++; linked[match[1]] == slices.Contains(unlinked, match[1]) {
				t.Errorf("table %q (%s): linked into the simulation: %v", match[1], path, linked[match[1]])
			}
		}
		return err
	})
	if err != nil || declared == 0 || declared != len(linked)+len(unlinked) {
		t.Errorf("%d tables are declared, %d are linked: %v", declared, len(linked), err)
	}
}
