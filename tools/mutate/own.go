package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// notOwn are the tests of a package that compare its tables with their drawing in doc.go: they fail after
// every change to a row, whatever it does.
const notOwn = "^TestTables?$"

// own runs the tests of the changed packages themselves.
type own struct {
	dir     string
	changes []change

	mu    sync.Mutex
	built map[string]*ownTest // by folder
}

type ownTest struct {
	sync.Once
	binary, hash string
	problem      string // that keeps it from being built
}

// test returns the test of a folder, which is built once.
func (o *own) test(folder string) *ownTest {
	o.mu.Lock()
	if o.built[folder] == nil {
		o.built[folder] = &ownTest{binary: filepath.Join(o.dir, strings.ReplaceAll(folder, "/", "_")+".test")}
	}
	t := o.built[folder]
	o.mu.Unlock()
	t.Do(func() {
		if out, err := compile(o.dir, folder, t.binary); err != nil {
			t.problem = fmt.Sprintf("%v: %s", err, out)
			return
		}
		if _, err := os.Stat(t.binary); err != nil { // the folder has no tests
			t.binary, t.hash = "", "none"
			return
		}
		var err error
		if t.hash, err = hashOf(t.binary); err != nil {
			t.problem = err.Error()
		}
	})
	return t
}

// testedBy returns the folder whose tests are those of a file: its own, or if that has none the next one
// above, such as that of the actor that the file is a part of.
func testedBy(path string) string {
	folder := filepath.Dir(path)
	for f := folder; f != "."; f = filepath.Dir(f) {
		if tests, _ := filepath.Glob(filepath.Join(f, "*_test.go")); len(tests) > 0 { // the pattern is valid
			return f
		}
	}
	return folder
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// try returns the first test of the package that fails with the change of a number, and passes
// without it; empty: none.
func (o *own) try(n int) (failed string, err error) {
	folder := testedBy(o.changes[n-1].path)
	t := o.test(folder)
	if t.problem != "" {
		return "", errors.New(t.problem)
	}
	if t.binary == "" {
		return "", nil
	}
	const limit = 4 * time.Minute
	var skip []string
	for range 3 { // tests that fail without the change too
		args := []string{"-test.failfast", "-test.timeout=" + limit.String(),
			"-test.skip=" + strings.Join(append([]string{notOwn}, skip...), "|")}
		r, err := execute(t.binary, folder, strconv.Itoa(n), limit+time.Minute, args...)
		switch {
		case err == nil:
			return "", nil
		case !errors.Is(err, errFailed):
			return "", err
		case r.late || strings.Contains(r.out, "panic: test timed out"):
			return "a test never ends", nil
		}
		m := failedTest.FindStringSubmatch(r.out)
		if m == nil {
			return panicked.FindString(r.out) + " in a test", nil
		}
		top, _, _ := strings.Cut(m[1], "/")
		if _, err := execute(t.binary, folder, "0", limit, "-test.run=^"+top+"$"); err == nil {
			return top, nil
		}
		skip = append(skip, "^"+top+"$")
	}
	return "", fmt.Errorf("%s: tests fail without a change: %s", folder, strings.Join(skip, ", "))
}
