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
)

// imports are the packages that each package of the module is built from, directly and indirectly. Tests do not count.
type imports map[string][]string

// rule says what the packages below pkgs must never be built from, however indirectly, but for except.
type rule struct {
	pkgs, never string
	except      []string
	why         string
}

// anything but the standard library, in rule.never.
const foreign = "(outside the standard library)"

var rules = []rule{
	{"core", foreign, []string{module + "/core"}, "core decides, and can be tested without anything else"},
	{"cuda", actorLib, nil, "a device knows no actors"},
	{"cuda", module, []string{module + "/cuda", module + "/core"}, "a device knows bytes and kernels, not models or messages"},
	{"modelfile", actorLib, nil, "files are read without actors"},
	{"modelfile", module, []string{module + "/modelfile", module + "/cuda", module + "/core"}, "files are read without an engine or messages"},
	{"engine", actorLib, nil, "an engine runs steps; its supervision is not its business"},
	{
		"engine", module, []string{module + "/engine", module + "/modelfile", module + "/cuda", module + "/core"},
		"an engine is below actors and messages",
	},
	{"messages", module, []string{module + "/messages"}, "messages import nothing of the module"},
	{"messages", actorLib, nil, "messages import nothing of the module"},
	{"actors", module + "/gateway", nil, "a gateway comes in as a Client"},
	{"actors", module + "/cluster", nil, "actors are composed above them"},
	{"actors", module + "/control", nil, "actors are composed above them"},
	{"actors", module + "/observe", nil, "actors are composed above them"},
	{"actors", module + "/cuda/host", nil, "actors drive any cuda.Device"},
	{"actors", module + "/engine/llama", nil, "actors drive any engine.Engine"},
	{"cluster", module + "/gateway", nil, "the cluster's mechanics know no service of a node"},
	{"cluster", module + "/control", nil, "the cluster's mechanics know no service of a node"},
	{"cluster", module + "/observe", nil, "the cluster's mechanics know no service of a node"},
	{"gateway", module + "/cluster", nil, "the node serves the gateway, which does not know how a node is composed"},
	{"gateway", module + "/control", nil, "the node serves the gateway, which does not know how a node is composed"},
	{"gateway", module + "/observe", nil, "the node serves the gateway, which does not know how a node is composed"},
	{"gateway", module + "/cuda/host", nil, "the gateway knows models by their folder, not by their device"},
	{"control", module + "/gateway", nil, "control reaches the node through its Backend"},
	{"observe", module + "/gateway", nil, "observers read what actors report"},
}

// TestLayers keeps the dependency rules of docs/architecture.md.
func TestLayers(t *testing.T) {
	deps, err := listImports()
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range append(breaches(deps, rules), strangers(deps)...) {
		t.Error(breach)
	}
}

// TestBreaches checks that a breach is seen: the rules themselves must be able to fail.
func TestBreaches(t *testing.T) {
	for name, deps := range map[string]imports{
		"core imports a library":   {module + "/core/kv": {"fmt", "github.com/x/y"}},
		"engine knows messages":    {module + "/engine/llama": {module + "/messages"}},
		"an actor imports another": {module + "/actors/gpu": {module + "/actors/kvblock"}},
		"testkit in a node":        {module + "/node": {module + "/testkit"}},
		"the command is imported":  {module + "/gateway": {module + "/cmd/node"}},
		"the node is imported":     {module + "/control": {module + "/node"}},
		"the gateway by control":   {module + "/control": {module + "/gateway/openai"}},
	} {
		if got := append(breaches(deps, rules), strangers(deps)...); len(got) != 1 {
			t.Errorf("%s: %d breaches were seen, not 1: %v", name, len(got), got)
		}
	}
	fine := imports{module + "/actors/gpu": {"fmt", module + "/actors/supervise", module + "/core/hbm"}, module + "/core/kv": {"fmt", module + "/core/units"}}
	if got := append(breaches(fine, rules), strangers(fine)...); len(got) != 0 {
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

// strangers finds what no rule of one folder can say.
func strangers(deps imports) (found []string) {
	for pkg, all := range deps {
		for _, dep := range all {
			switch {
			case dep == pkg:
			case below(pkg, module+"/actors") && below(dep, module+"/actors") && dep != module+"/actors/supervise":
				found = append(found, fmt.Sprintf("%s depends on %s: an actor gets the Props of another in its Config", pkg, dep))
			case below(dep, module+"/testkit") && !below(pkg, module+"/testkit") && !below(pkg, module+"/tools"):
				found = append(found, fmt.Sprintf("%s depends on %s: what tests share is in no node", pkg, dep))
			case below(dep, module+"/cmd"):
				found = append(found, fmt.Sprintf("%s depends on %s: nothing imports a command", pkg, dep))
			case below(dep, module+"/node") && !below(pkg, module+"/cmd") && !below(pkg, module+"/testkit") && !below(pkg, module+"/tools"):
				found = append(found, fmt.Sprintf("%s depends on %s: the node composes all others", pkg, dep))
			}
		}
	}
	return found
}

func below(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// standard reports whether a package is of the standard library, or vendored into it.
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

// TestActorsStayStopped: every actor is made by supervise.Props, which sees to that.
func TestActorsStayStopped(t *testing.T) {
	var made []string
	for _, top := range []string{"actors", "gateway", "cluster"} {
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "actor.PropsFrom") {
				made = append(made, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(made, []string{"actors/supervise/props.go"}) {
		t.Errorf("make these with supervise.Props: %v", made)
	}
}
