package troupe

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"testing"
)

// seamExempt has the files and folders below checkedFolders that use time, goroutines or randomness
// directly, and the reason. All other code uses supervise.Runtime. Machines in core use none of
// these: their events carry the time.
var seamExempt = map[string]string{
	"actors/supervise/runtime.go":    "implements supervise.System",
	"actors/supervise/dispatcher.go": "runs actors; a simulation has a dispatcher of its own",
	"gateway/apikey/keys.go":         "API keys are secrets",
	"cluster/bulk/bulkbench":         "measures the machine",
	"cluster/natsd":                  "runs nats-server, which has a clock and goroutines of its own",
	"cluster/security":               "keys are secrets, and certificates expire in real time",
}

// seamFunctions has the forbidden functions and methods by package. "*" stands for the entire
// package.
var seamFunctions = map[string][]string{
	"time": {
		"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep",
	},
	"context": {
		"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc",
	},
	"sync": {"WaitGroup.Go"},
	"github.com/asynkron/protoactor-go/actor": {
		"RootContext.RequestFuture", "Context.RequestFuture", "senderPart.RequestFuture", "NewFuture",
	},
	"golang.org/x/sync/errgroup": {"*"},
	"golang.org/x/time/rate":     {"*"},
	"math/rand":                  {"*"},
	"math/rand/v2":               {"*"},
	"crypto/rand":                {"*"},
	"github.com/nats-io/nuid":    {"*"},
	"github.com/google/uuid":     {"*"},
	"google.golang.org/protobuf/types/known/timestamppb": {"Now"},
}

// TestTimeAndConcurrencyGoThroughTheRuntime checks that no code bypasses supervise.Runtime.
func TestTimeAndConcurrencyGoThroughTheRuntime(t *testing.T) {
	exempted := make(map[string]bool)
	sources, err := loadSources()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range sources {
		for _, use := range p.aroundSeam() {
			exempt := belowAny(use.file, slices.Collect(maps.Keys(seamExempt)))
			if exempted[exempt] = true; exempt == "" {
				t.Errorf("%s:%d: %s; use supervise.Runtime", use.file, use.line, use.what)
			}
		}
	}
	for path := range seamExempt {
		if !exempted[path] {
			t.Errorf("%s uses nothing that is forbidden; remove it from seamExempt", path)
		}
	}
}

// aroundSeam returns the uses of seamFunctions and the go statements.
func (s *source) aroundSeam() (found []finding) {
	for _, file := range s.files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = append(found, s.at(n, "a go statement"))
			case *ast.Ident:
				f, ok := s.info.Uses[n].(*types.Func)
				if !ok || f.Pkg() == nil {
					break
				}
				forbidden := seamFunctions[f.Pkg().Path()]
				if name := nameOf(f); slices.Contains(forbidden, name) || slices.Contains(forbidden, "*") {
					found = append(found, s.at(n, f.Pkg().Path()+"."+name))
				}
			}
			return true
		})
	}
	return found
}

// nameOf returns the name of a function, or Type.Method.
func nameOf(f *types.Func) string {
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Name()
	}
	of := recv.Type()
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	if n, ok := of.(*types.Named); ok {
		return n.Obj().Name() + "." + f.Name()
	}
	return f.Name()
}

// belowAny returns the element of folders that is path or contains it, or "".
func belowAny(path string, folders []string) string {
	for _, folder := range folders {
		if below(path, folder) {
			return folder
		}
	}
	return ""
}

// TestUsesAroundTheSeamAreFound checks that each kind of use is found.
func TestUsesAroundTheSeamAreFound(t *testing.T) {
	for text, want := range map[string]int{
		`import "time"; var x = time.Now()`:                                                     1,
		`import clock "time"; var now = clock.Now`:                                              1,
		`import . "time"; var x = Tick(1)`:                                                      1,
		`import "time"; func f(t time.Time) time.Time { return t.Add(time.Second) }`:            0,
		`func f() { go f() }`:                                                                   1,
		`import "sync"; func f(g *sync.WaitGroup) { g.Go(func() {}); g.Wait() }`:                1,
		`import "sync"; type group struct{ sync.WaitGroup }; func (g *group) f() { g.Go(nil) }`: 1,
		`import "math/rand/v2"; var x = rand.New(nil).Uint64()`:                                 2,
		`import "context"; var x, y = context.WithCancel(nil)`:                                  0,
		`import "context"; var stop = context.AfterFunc(nil, nil)`:                              1,
	} {
		p, err := checkText("package p; " + text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := p.aroundSeam(); len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
