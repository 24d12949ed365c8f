package troupe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module   = "troupe"
	actorLib = "github.com/asynkron/protoactor-go"
	sketches = "github.com/DataDog/sketches-go" // of core/demand; it needs protobuf
)

// imports maps each package of the module to its direct and indirect dependencies, without those of
// tests.
type imports map[string][]string

// rule forbids the packages below pkgs to depend on packages below never, directly or indirectly,
// except on those below except.
type rule struct {
	pkgs, never string
	except      []string
	why         string
}

// foreign, in rule.never, stands for all packages outside the standard library.
const foreign = "(outside the standard library)"

var rules = []rule{
	{
		"core", foreign, []string{module + "/core", sketches, "google.golang.org/protobuf"},
		"core is pure and is tested alone",
	},
	{"workload", foreign, []string{module + "/workload"}, "requests are read and generated alone"},
	{
		"recording", module, []string{module + "/recording", module + "/workload", module + "/core"},
		"a recording is read without a cluster",
	},
	{"recording", actorLib, nil, "a recording is read without a cluster"},
	{
		"simulate", module,
		[]string{module + "/simulate", module + "/workload", module + "/recording", module + "/core",
			module + "/internal/costfile"},
		"a simulation knows machines, not actors, messages or devices",
	},
	{"simulate", actorLib, nil, "a simulation has one goroutine"},
	{"cuda", actorLib, nil, "a device does not know actors"},
	{
		"cuda", module, []string{module + "/cuda", module + "/core"},
		"a device knows bytes and kernels, not models or messages",
	},
	{"modelfile", actorLib, nil, "files are read without actors"},
	{
		"modelfile", module, []string{module + "/modelfile", module + "/cuda", module + "/core"},
		"files are read without an engine or messages",
	},
	{"engine", actorLib, nil, "an engine runs steps and does not know its supervision"},
	{
		"engine", module, []string{module + "/engine", module + "/modelfile", module + "/cuda", module + "/core"},
		"an engine is below actors and messages",
	},
	{"messages", module, []string{module + "/messages"}, "messages import nothing of the module"},
	{"messages", actorLib, nil, "messages import nothing of the module"},
	{"actors", module + "/gateway", nil, "a gateway is passed as a Client"},
	{"actors", module + "/cluster", nil, "the packages above compose actors"},
	{"actors", module + "/control", nil, "the packages above compose actors"},
	{"actors", module + "/observe", nil, "the packages above compose actors"},
	{"actors", module + "/cuda/host", nil, "actors drive any cuda.Device"},
	{"actors", module + "/engine/llama", nil, "actors drive any engine.Engine"},
	{"cluster", module + "/gateway", nil, "the cluster does not know the services of a node"},
	{"cluster", module + "/control", nil, "the cluster does not know the services of a node"},
	{"cluster", module + "/observe", nil, "the cluster does not know the services of a node"},
	{"gateway", module + "/cluster", nil, "the gateway does not know how a node is composed"},
	{"gateway", module + "/control", nil, "the gateway does not know how a node is composed"},
	{"gateway", module + "/observe", nil, "the gateway does not know how a node is composed"},
	{"gateway", module + "/cuda/host", nil, "the gateway does not know devices"},
	{"control", module + "/gateway", nil, "control calls the node through its Backend"},
	{"observe", module + "/gateway", nil, "observers read what actors report"},
}

// TestLayers checks the dependency rules of docs/architecture.md.
func TestLayers(t *testing.T) {
	deps, err := listImports()
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range append(breaches(deps, rules), crossBreaches(deps)...) {
		t.Error(breach)
	}
}

// TestBreachesAreFound checks that each rule can fail.
func TestBreachesAreFound(t *testing.T) {
	for name, deps := range map[string]imports{
		"core imports a library":   {module + "/core/kv": {"fmt", "github.com/x/y"}},
		"engine knows messages":    {module + "/engine/llama": {module + "/messages"}},
		"an actor imports another": {module + "/actors/gpu": {module + "/actors/kvblock"}},
		"testkit in a node":        {module + "/node": {module + "/testkit"}},
		"the command is imported":  {module + "/gateway": {module + "/cmd/node"}},
		"the node is imported":     {module + "/control": {module + "/node"}},
		"a simulation of actors":   {module + "/simulate": {module + "/actors/gpu"}},
		"the gateway by control":   {module + "/control": {module + "/gateway/openai"}},
	} {
		if got := append(breaches(deps, rules), crossBreaches(deps)...); len(got) != 1 {
			t.Errorf("%s: found %d breaches, want 1: %v", name, len(got), got)
		}
	}
	allowed := imports{
		module + "/actors/gpu": {"fmt", module + "/actors/supervise", module + "/core/hbm"},
		module + "/core/kv":    {"fmt", module + "/core/units"},

		module + "/actors/model/replica": {module + "/actors/model/replica/transfer"},
	}
	if got := append(breaches(allowed, rules), crossBreaches(allowed)...); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func breaches(deps imports, rules []rule) (found []string) {
	for pkg, all := range deps {
		for _, r := range rules {
			if !below(pkg, module+"/"+r.pkgs) {
				continue
			}
			for _, dep := range all {
				if r.forbids(dep) {
					found = append(found, fmt.Sprintf("%s depends on %s: %s", pkg, dep, r.why))
				}
			}
		}
	}
	return found
}

func (r rule) forbids(dep string) bool {
	if slices.ContainsFunc(r.except, func(free string) bool { return below(dep, free) }) {
		return false
	}
	if r.never == foreign {
		return !standard(dep)
	}
	return below(dep, r.never)
}

// sharedByActors are the packages below actors that are no actors.
var sharedByActors = []string{module + "/actors/supervise", module + "/actors/exporter",
	module + "/actors/model/replica/wire"}

// crossBreaches finds breaches of the rules that a rule for one folder cannot express.
func crossBreaches(deps imports) (found []string) {
	for pkg, all := range deps {
		for _, dep := range all {
			report := func(why string) {
				found = append(found, fmt.Sprintf("%s depends on %s: %s", pkg, dep, why))
			}
			switch {
			case below(dep, pkg): // an actor imports its children in folders below its own
			case below(pkg, module+"/actors") && below(dep, module+"/actors") && !slices.Contains(sharedByActors, dep):
				report("pass the other actor's Props in the Config")
			case below(dep, module+"/testkit") && !below(pkg, module+"/testkit") && !below(pkg, module+"/tools"):
				report("a node contains no test code")
			case below(dep, module+"/cmd"):
				report("nothing imports a command")
			case below(dep, module+"/node") && !below(pkg, module+"/node") && !below(pkg, module+"/cmd") &&
				!below(pkg, module+"/testkit") && !below(pkg, module+"/tools"):
				report("only commands and tests import the node")
			}
		}
	}
	return found
}

func below(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// standard reports whether a package belongs to the standard library or is vendored into it.
func standard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return first != module && (!strings.Contains(first, ".") || first == "vendor")
}

func listImports() (imports, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Deps", "./...").Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	deps := imports{}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Deps       []string
		}
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return deps, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		deps[p.ImportPath] = p.Deps
	}
}

// TestActorsUseSuperviseProps checks that supervise.Props creates every actor, so that a stopped
// actor does not restart.
func TestActorsUseSuperviseProps(t *testing.T) {
	var found []string
	for _, top := range []string{"actors", "gateway", "cluster"} {
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "actor.PropsFrom") {
				found = append(found, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(found, []string{"actors/supervise/props.go"}) {
		t.Errorf("actor.PropsFrom is used in %v; use supervise.Props", found)
	}
}
