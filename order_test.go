package troupe

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// orderExempt has the functions in which the order of an iteration over a map does not matter, and
// the reason.
var orderExempt = map[string]string{
	"core/batch/adapter.go batch.Scheduler.activeAdapters":       "the callers count them",
	"core/lora/adapter_limit.go lora.adapterLimit.closeSmallest": "takes the smallest by number and name",
}

// TestMapsAreIteratedInOrder checks that no iteration over a map sends messages, starts something
// or draws random numbers, and that none fills a list that is not sorted afterwards. The order
// would differ from run to run.
func TestMapsAreIteratedInOrder(t *testing.T) {
	sources, err := loadSources()
	if err != nil {
		t.Fatal(err)
	}
	exempted := make(map[string]bool)
	for _, use := range unordered(sources) {
		if orderExempt[use.where()] != "" {
			exempted[use.where()] = true
			continue
		}
		t.Errorf("%s:%d: %s in an iteration over a map, in %s; sort the keys first",
			use.file, use.line, use.what, use.in)
	}
	for where := range orderExempt {
		if !exempted[where] {
			t.Errorf("%s is ordered; remove it from orderExempt", where)
		}
	}
}

// unorderedUse is a send in an iteration over a map.
type unorderedUse struct {
	finding
	in string // name of the function
}

func (u unorderedUse) where() string { return u.file + " " + u.in }

// unordered returns the iterations over maps that send something or fill a list, one finding for
// each.
func unordered(sources []*source) (found []unorderedUse) {
	senders := senders(sources)
	for _, s := range sources {
		s.eachFunction(func(name string, body *ast.BlockStmt) {
			sorts := s.sorts(body)
			ast.Inspect(body, func(n ast.Node) bool {
				inner := s.mapIteration(n)
				if inner == nil {
					return true
				}
				sent := s.firstSend(inner, senders)
				if sent == "" && !sorts && s.fillsList(inner) {
					sent = "append"
				}
				if sent != "" {
					found = append(found, unorderedUse{s.at(n, sent), shortName(name)})
				}
				return true
			})
		})
	}
	return found
}

// shortName returns the full name of a function without the path of its package.
func shortName(full string) string {
	return strings.Replace(full[strings.LastIndex(full, "/")+1:], ").", ".", 1)
}

// sorts reports whether a function body contains a sort.
func (s *source) sorts(body *ast.BlockStmt) (sorts bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			sorts = sorts || strings.Contains(strings.ToLower(s.callee(call)), "sort")
		}
		return !sorts
	})
	return sorts
}

// fillsList reports whether statements append to a list that is not the value of a map.
func (s *source) fillsList(n ast.Node) (fills bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && s.callee(call) == "append" {
			_, ofMap := call.Args[0].(*ast.IndexExpr)
			fills = fills || !ofMap
		}
		return !fills
	})
	return fills
}

// senders returns the functions that send something, directly or through other functions of the
// module, and what they send.
func senders(sources []*source) map[string]string {
	senders := make(map[string]string)
	for grown := true; grown; {
		grown = false
		for _, s := range sources {
			s.eachFunction(func(name string, body *ast.BlockStmt) {
				if senders[name] != "" {
					return
				}
				if sent := s.firstSend(body, senders); sent != "" {
					senders[name], grown = sent, true
				}
			})
		}
	}
	return senders
}

// eachFunction calls f for each declared function.
func (s *source) eachFunction(f func(name string, body *ast.BlockStmt)) {
	for _, file := range s.files {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				f(s.info.Defs[d.Name].(*types.Func).FullName(), d.Body)
			}
		}
	}
}

// mapIteration returns the statements that n executes for each entry of a map, or nil.
func (s *source) mapIteration(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.RangeStmt:
		if _, ok := s.info.TypeOf(n.X).Underlying().(*types.Map); ok {
			return n.Body
		}
		if call, ok := n.X.(*ast.CallExpr); ok && slices.Contains(mapIterators, s.callee(call)) {
			return n.Body
		}
	case *ast.CallExpr:
		if name := s.callee(n); name == "maps.DeleteFunc" || name == "(*sync.Map).Range" {
			return n.Args[len(n.Args)-1]
		}
	}
	return nil
}

var mapIterators = []string{"maps.All", "maps.Keys", "maps.Values"}

// callee returns the full name of the called function or method, or the name of a field or variable
// that holds it.
func (s *source) callee(call *ast.CallExpr) string {
	at := ast.Unparen(call.Fun)
	switch indexed := at.(type) { // instances of generic functions
	case *ast.IndexExpr:
		at = indexed.X
	case *ast.IndexListExpr:
		at = indexed.X
	}
	var id *ast.Ident
	switch at := at.(type) {
	case *ast.Ident:
		id = at
	case *ast.SelectorExpr:
		id = at.Sel
	default:
		return ""
	}
	if f, ok := s.info.Uses[id].(*types.Func); ok {
		return f.Origin().FullName()
	}
	return id.Name
}

// firstSend describes the first send below n, or returns "".
func (s *source) firstSend(n ast.Node, senders map[string]string) (sent string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SendStmt:
			if to := s.info.TypeOf(n.Chan).String(); !strings.HasSuffix(to, "prometheus.Metric") { // sorted later
				sent = "a channel send"
			}
		case *ast.CallExpr:
			name := s.callee(n)
			switch {
			case sends(name):
				sent = name
			case senders[name] != "":
				sent = "a send by " + shortName(name)
			case name == "append" && s.makesEffects(n):
				sent = "append of effects"
			}
		}
		return sent == ""
	})
	return sent
}

// makesEffects reports whether a call of append adds effects of a machine.
func (s *source) makesEffects(call *ast.CallExpr) bool {
	list, ok := s.info.TypeOf(call).Underlying().(*types.Slice)
	if !ok {
		return false
	}
	of, ok := list.Elem().(*types.Named)
	return ok && slices.Contains(effectTypes, of.Obj().Name())
}

// effectTypes are the names of the types with which machines instruct their actors.
var effectTypes = []string{"Effect", "Action"}

// sends reports whether a function of a library or of supervise sends messages, starts something or
// draws random numbers.
func sends(name string) bool {
	recv, method, ok := cutMethod(name)
	switch {
	case !ok:
		return slices.Contains(startingFunctions, name)
	case strings.HasPrefix(recv, actorLib):
		return slices.Contains(actorMethods, method)
	case strings.HasPrefix(recv, "github.com/nats-io/"):
		return strings.HasPrefix(method, "Publish") ||
			!strings.HasSuffix(recv, ".Header") && slices.Contains(natsMethods, method)
	case recv == module+"/actors/supervise.Runtime":
		return method != "Now"
	}
	return false
}

var (
	actorMethods = []string{
		"Send", "Request", "RequestWithCustomSender", "RequestFuture", "Respond", "Forward", "Stop", "StopFuture",
		"Poison", "PoisonFuture", "Watch", "Unwatch", "Spawn", "SpawnNamed", "SpawnPrefix", "SendUserMessage",
		"SendSystemMessage", "Publish",
	}
	natsMethods = []string{
		"Get", "GetLastMsgForSubject", "Put", "Create", "Update", "Delete", "Purge", "Respond", "Subscribe",
		"QueueSubscribe",
	}
	// Publish is the field of configs that publishes events.
	startingFunctions = []string{
		"Publish", module + "/actors/supervise.Job", module + "/actors/supervise.After",
		module + "/actors/supervise.GoIn",
	}
)

// cutMethod splits the full name of a method, such as (*net/http.Client).Do.
func cutMethod(name string) (recv, method string, ok bool) {
	recv, method, ok = strings.Cut(name, ").")
	return strings.TrimLeft(recv, "(*"), method, ok
}

// TestUnorderedIterationsAreFound checks that each kind of iteration is found.
func TestUnorderedIterationsAreFound(t *testing.T) {
	const imports = `package p; import ("maps"; "slices"; "troupe/actors/supervise")
		var _, _, _ = maps.Keys[map[int]int], slices.Max[[]int], supervise.System
		type Effect struct{}
		func send(c chan int, k int) { c <- k }
		`
	for text, want := range map[string]int{
		`func f(m map[int]int, c chan int) { for k := range m { c <- k } }`:                                         1,
		`func f(m map[int]int, c chan int) { for k := range m { send(c, k) } }`:                                     1,
		`func f(m map[int]int, c chan int) { for k := range maps.Keys(m) { c <- k } }`:                              1,
		`func f(m map[int]int, c chan int) { maps.DeleteFunc(m, func(k, v int) bool { c <- k; return true }) }`:     1,
		`func f(m map[int]int, c chan int) { for _, k := range slices.Sorted(maps.Keys(m)) { c <- k } }`:            0,
		`func f(m map[int]int) { for range m { supervise.System.Go(nil) } }`:                                        1,
		`func f(m map[int]int) (e []Effect) { for range m { e = append(e, Effect{}) }; return e }`:                  1,
		`func f(m map[int]int) (all []int) { for k := range m { all = append(all, k) }; return all }`:               1,
		`func f(m map[int]int) (all []int) { for k := range m { all = append(all, k) }; slices.Sort(all); return }`: 0,
		`func f(m map[int]int) (n int) { for _, v := range m { n += v }; return n }`:                                0,
	} {
		p, err := checkText(imports + text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := unordered([]*source{p}); len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
