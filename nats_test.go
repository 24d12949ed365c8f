package troupe

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// natsCalls are the calls that receive NATS messages or answer them. For each call it lists the
// places in the product, as file and function, with the reason why the reply subject of a message
// cannot redirect what is published.
var natsCalls = map[string]map[string]string{
	"Subscribe": {
		"cluster/service/service.go describe":     "dispatch calls its handler, behind the guard",
		"cluster/members/members.go Open":         "receives changes of a bucket and answers nothing",
		"cluster/bucket/nats_client.go Subscribe": "likewise, for members.Open",
		"cmd/node/record.go subscribeEvents":      "reads events and answers nothing",
	},
	"QueueSubscribe": {"cluster/service/service.go Add": "dispatch calls its handler, behind the guard"},
	"SubscribeSync":  {"cluster/reply/peer.go AskPeer": "waits for an answer and answers nothing"},
	"RespondMsg":     {"cluster/service/request.go Respond": "the reply subject was admitted by the guard"},
	"PublishRequest": {
		"cluster/reply/peer.go AskPeer": "sends to a node; of the client's data it uses only a member's name",
	},
	"Respond": {
		"cluster/service/service.go describe": "answers a service.Request that the guard admitted",
		"cluster/service/service.go dispatch": "likewise",
		"control/endpoints.go serve":          "likewise",
		"control/endpoints.go fail":           "likewise",
		"gateway/nats.go write":               "likewise",
		"gateway/nats.go finish":              "likewise",
		"gateway/nats.go fail":                "likewise",
		"gateway/nats.go respondText":         "likewise",
	},
	"Publish": {"control/events.go send": "kinds of events are checked constants"},
	"PublishMsg": {
		"cluster/bucket/nats_client.go Write": "keys are names of nodes and roles, or were read from the store",
	},
	"ChanSubscribe":              {},
	"AddService":                 {},
	"AddEndpoint":                {},
	"QueueSubscribeSyncWithChan": {},
	"QueueSubscribeSync":         {},
	"ChanQueueSubscribe":         {},
}

// TestNATSCallsAreGuarded checks that natsCalls lists every place that subscribes to NATS or
// answers a message. A new place must pass the guard of cluster/reply or answer nothing.
func TestNATSCallsAreGuarded(t *testing.T) {
	found := map[string]map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || path == "testkit" || path == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !usesNATS(file) {
			return nil
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && natsCalls[s.Sel.Name] != nil && !inMemory(s) {
					if found[s.Sel.Name] == nil {
						found[s.Sel.Name] = map[string]bool{}
					}
					found[s.Sel.Name][filepath.ToSlash(path)+" "+f.Name.Name] = true
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for call, known := range natsCalls {
		want, got := slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(found[call]))
		if !slices.Equal(got, want) {
			t.Errorf("%s is called in %v, natsCalls lists %v; pass requests through cluster/service and list the call",
				call, got, want)
		}
	}
}

// usesNATS reports whether a file imports nats.go.
func usesNATS(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		return strings.HasPrefix(strings.Trim(i.Path.Value, `"`), "github.com/nats-io/nats.go")
	})
}

// inMemory reports whether a call is a method of the same name of members.Members, control.Events,
// audit.Log or protoactor.
func inMemory(s *ast.SelectorExpr) bool {
	x, ok := s.X.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"members", "events", "audit", "EventStream"}, x.Sel.Name)
}
