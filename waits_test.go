package troupe

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// waitsExempt has the files and folders whose tests wait in real time, and what is real there. They
// poll for a state, with a limit that no machine needs. All other tests run in a synctest bubble,
// advance a testkit/clock or hold a gate, so that they take no time and depend on none.
var waitsExempt = map[string]string{
	"actors/supervise/runtime_test.go": "compares supervise.System with the functions that it stands for",
	"cluster/bulk":                     "real sockets and their deadlines",
	"cluster/link":                     "real sockets and gRPC",
	"cluster/members":                  "a real nats-server, which is restarted and loses its store",
	"cluster/natsd":                    "runs nats-server: its clusters, users and full disks",
	"cluster/recovery":                 "a real nats-server and its files",
	"cluster/security":                 "real TLS connections, and files that are checked every second",
	"cluster/service":                  "real NATS services",
	"cluster/store":                    "a real nats-server with its revisions, watches and outages",
	"cmd/node":                         "real processes",
	"control/synced_test.go":           "real NATS services",
	"control/view_test.go":             "real NATS services",
	"engine/llama/digest_test.go":      "the clock of a file system",
	"gateway/budget_test.go":           "real HTTP connections",
	"gateway/revocation_test.go":       "real HTTP connections",
	"modelfile/chat/bombs_test.go":     "a process that is killed when it hangs",
	"node":                             "real nodes with NATS, sockets and disks",
	"testkit/actors.go":                "10 ns, for tests in a bubble and others",
	"testkit/chaos":                    "real processes",
	"testkit/cluster":                  "real processes",
	"testkit/conformance":              "backends that compute, or wait as if they did",
	"testkit/dst":                      "runs in a bubble",
	"testkit/identity":                 "real processes",
	"testkit/natskv":                   "compares its server with a real nats-server",
	"testkit/until.go":                 "polls for the others",
}

// waitFunctions has the functions that wait for real time outside a bubble, by package.
var waitFunctions = map[string][]string{
	"time": {"Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	"context": {
		"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause",
	},
	module + "/testkit": {"Until"},
}

// TestTestsDoNotWait checks that no test outside waitsExempt waits in real time. Benchmarks do.
func TestTestsDoNotWait(t *testing.T) {
	units, err := loadTests()
	if err != nil {
		t.Fatal(err)
	}
	exempted := make(map[string]bool)
	for _, dir := range slices.Sorted(maps.Keys(units)) {
		for _, wait := range units[dir].waits() {
			exempt := belowAny(wait.file, slices.Collect(maps.Keys(waitsExempt)))
			if exempted[exempt] = true; exempt == "" {
				t.Errorf("%s:%d: %s; use a synctest bubble or a clock, or hold a gate", wait.file, wait.line, wait.what)
			}
		}
	}
	for path := range waitsExempt {
		if !exempted[path] {
			t.Errorf("%s does not wait; remove it from waitsExempt", path)
		}
	}
}

// loadTests parses all tests, and the packages that help them, by folder.
func loadTests() (map[string]*testUnit, error) {
	units := make(map[string]*testUnit)
	return units, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go") && !(below(path, "testkit") && strings.HasSuffix(path, ".go")):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if units[dir] == nil {
			units[dir] = newTestUnit()
		}
		units[dir].add(fset, file, below(path, "testkit") && !strings.HasSuffix(path, "_test.go"))
		return nil
	})
}

// TestWaitsAreFound checks which waits are found.
func TestWaitsAreFound(t *testing.T) {
	const sleep = `time.Sleep(1)`
	for text, want := range map[string]int{
		`func TestA(t *testing.T) { ` + sleep + ` }`:                                                            1,
		`func TestA(t *testing.T) { <-time.After(1); testkit.Until(t, "", nil) }`:                               2,
		`func BenchmarkA(b *testing.B) { ` + sleep + ` }`:                                                       0,
		`func FuzzA(f *testing.F) { c, stop := context.WithTimeout(nil, 1) }`:                                   1,
		`func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { ` + sleep + ` }) }`:                   0,
		`func TestA(t *testing.T) { pause() }; func pause() { ` + sleep + ` }`:                                  1,
		`func TestA(t *testing.T) { synctest.Test(t, body) }; func body(*testing.T) { ` + sleep + ` }`:          0,
		`func TestA(t *testing.T) { x() }; func x() { y() }; func y() { ` + sleep + ` }`:                        1,
		`func TestA(t *testing.T) { x() }; func y() { ` + sleep + ` }`:                                          0,
		`func TestA(t *testing.T) { _ = slow{} }; type slow struct{}; func (slow) Read() { ` + sleep + ` }`:     1,
		`func TestA(t *testing.T) { var _ slow }; type slow int; func (slow) Read() { ` + sleep + ` }`:          1,
		`func TestA(t *testing.T) { new(slow) }; type slow struct{}; func (*slow) Read() { ` + sleep + ` }`:     1,
		`func TestA(t *testing.T) { x(func(slow) {}) }; type slow int; func (slow) Read() { ` + sleep + ` }`:    0,
		`func TestA(t *testing.T) { _ = []slow{{}} }; type slow struct{}; func (slow) Read() { ` + sleep + ` }`: 1,
		`func TestA(t *testing.T) { _ = in{} }; type in struct{ slow }; func (slow) Read() { ` + sleep + ` }`:   1,
		`func TestA(t *testing.T) { x() }; type slow struct{}; func (slow) Read() { ` + sleep + ` }`:            0,
		`var wait = func() { ` + sleep + ` }`:                                                                   1,
		`func TestA(t *testing.T) { each(t, func() { ` + sleep + ` }) }
		 func each(t *testing.T, f func()) { synctest.Test(t, func(*testing.T) { f() }) }`: 0,
		`func TestA(t *testing.T) { each(t, func() { ` + sleep + ` }) }
		 func each(t *testing.T, f func()) { f() }`: 1,
		`func TestA(t *testing.T) { time.Now(); clock.Sleep() }`: 0,
	} {
		const imports = `package p; import ("context"; "testing"; "testing/synctest"; "time"; "troupe/testkit");`
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p_test.go", imports+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		unit := newTestUnit()
		if unit.add(fset, file, false); len(unit.waits()) != want {
			t.Errorf("%s: %v", text, unit.waits())
		}
	}
}
