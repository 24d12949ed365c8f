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

// natsCalls are the calls by which code receives messages of NATS, or answers them, and where the
// product makes them: file and function -> why the reply subject of a message cannot steer what is
// published.
var natsCalls = map[string]map[string]string{
	"Subscribe": {
		"cluster/service/service.go describe": "its handler is called by dispatch, behind the guard",
		"cluster/members/members.go Open":     "changes of a bucket: nothing is answered",
	},
	"QueueSubscribe": {"cluster/service/service.go Add": "its handler is called by dispatch, behind the guard"},
	"SubscribeSync":  {"cluster/reply/peer.go AskPeer": "an answer is waited for: nothing is answered"},
	"RespondMsg":     {"cluster/service/request.go Respond": "the reply subject was admitted by the guard"},
	"PublishRequest": {"cluster/reply/peer.go AskPeer": "a request to a node, from which nothing of a client's is taken but a member's name"},
	"Respond": {
		"cluster/service/service.go describe": "of a service.Request, which the guard has admitted",
		"cluster/service/service.go dispatch": "likewise",
		"control/endpoints.go serve":          "likewise",
		"control/endpoints.go Fail":           "likewise",
		"gateway/nats.go infer":               "likewise",
		"gateway/nats.go failInfer":           "likewise",
		"gateway/nats.go respondText":         "likewise",
	},
	"Publish": {"control/events.go send": "the kinds of events are constants, and checked"},
	"PublishMsg": {
		"cluster/members/bucket_client.go write": "keys are names of nodes and roles",
		"cluster/store/restore.go restore":       "keys were keys of the store before",
	},
	"ChanSubscribe":              {},
	"AddService":                 {},
	"AddEndpoint":                {},
	"QueueSubscribeSyncWithChan": {},
	"QueueSubscribeSync":         {},
	"ChanQueueSubscribe":         {},
}

// TestNATSCallsAreGuarded lists each place of the product that subscribes to NATS or answers a message. A new
// one must pass the guard of cluster/reply, or answer nothing, and be added here.
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
			t.Errorf("%s is called in %v, and known are %v: pass requests through cluster/service, and list the call here", call, got, want)
		}
	}
}

// usesNATS reports whether a file imports the client of NATS.
func usesNATS(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		return strings.HasPrefix(strings.Trim(i.Path.Value, `"`), "github.com/nats-io/nats.go")
	})
}

// inMemory reports whether a call is one of members.Members, control.Events, audit.Log or protoactor, which
// have methods of the same names.
func inMemory(s *ast.SelectorExpr) bool {
	x, ok := s.X.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"members", "events", "audit", "EventStream"}, x.Sel.Name)
}
