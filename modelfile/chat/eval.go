package chat

import (
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/nodes"
)

// scope holds the names of a block. Other names are looked up in the enclosing block.
type scope struct {
	names  map[string]any
	parent *scope
}

func (s *scope) get(name string) any {
	for ; s != nil; s = s.parent {
		if v, ok := s.names[name]; ok {
			return v
		}
	}
	return nil
}

func (s *scope) inner() *scope { return &scope{names: make(map[string]any), parent: s} }

// arguments are the arguments of a call.
type arguments struct {
	all   []any
	named map[string]any
}

// eval evaluates an expression.
func (r *rendering) eval(s *scope, n nodes.Node) any {
	r.enter()
	defer func() { r.stack-- }()
	switch n := n.(type) {
	case *nodes.None:
		return nil
	case *nodes.String:
		return n.Val
	case *nodes.Integer:
		return n.Val
	case *nodes.Float:
		return n.Val
	case *nodes.Bool:
		return n.Val
	case *nodes.List:
		return r.listOf(s, n.Val)
	case *nodes.Tuple:
		return r.listOf(s, n.Val)
	case *nodes.Dict:
		o := newObject()
		for _, p := range n.Pairs {
			o.set(r, r.eval(s, p.Key), r.eval(s, p.Value))
		}
		return o
	case *nodes.Name:
		return s.get(n.Name.Val)
	case *nodes.GetAttribute:
		return r.attribute(s, n)
	case *nodes.GetItem:
		return r.item(r.eval(s, n.Node), r.eval(s, n.Arg))
	case *nodes.GetSlice:
		return r.slice(s, n)
	case *nodes.Negation:
		return !truth(r.eval(s, n.Term))
	case *nodes.UnaryExpression:
		return negative(r.eval(s, n.Term), n.Negative)
	case *nodes.BinaryExpression:
		return r.binary(s, n)
	case *nodes.Call:
		return r.callNode(s, n)
	case *nodes.FilteredExpression:
		v := r.eval(s, n.Expression)
		for _, call := range n.Filters {
			v = r.filter(s, call, v)
		}
		return v
	case *nodes.TestExpression:
		v := r.eval(s, n.Expression)
		return r.test(n.Test.Name, v, r.arguments(s, n.Test.Args, n.Test.Kwargs))
	}
	fail("an expression is incomplete")
	return nil
}

func (r *rendering) listOf(s *scope, all []nodes.Expression) *list {
	r.list(len(all))
	l := &list{make([]any, len(all))}
	for i, n := range all {
		l.items[i] = r.eval(s, n)
	}
	return l
}

func negative(v any, minus bool) any {
	switch v := v.(type) {
	case int:
		if minus {
			return -v
		}
		return v
	case float64:
		if minus {
			return -v
		}
		return v
	}
	fail("a sign cannot precede a %s", typeOf(v))
	return nil
}

func (r *rendering) attribute(s *scope, n *nodes.GetAttribute) any {
	v := r.eval(s, n.Node)
	if n.Attribute == "" {
		return r.item(v, n.Index)
	}
	return r.named(v, n.Attribute)
}

// named returns an attribute; for an object, the value of a key.
func (r *rendering) named(v any, name string) any {
	switch v := v.(type) {
	case nil:
		fail("None has no attributes")
	case *object:
		return v.values[name]
	case *loop:
		return v.attribute(r, name)
	}
	return nil
}

func (r *rendering) item(v, key any) any {
	switch v := v.(type) {
	case nil:
		fail("None has no items")
	case *object:
		switch key.(type) {
		case nil, bool, int, float64, string:
			return v.values[key]
		}
	case *list:
		if i, ok := key.(int); ok {
			if i < 0 {
				i += len(v.items)
			}
			if i >= 0 && i < len(v.items) {
				return v.items[i]
			}
		}
	case string:
		if i, ok := key.(int); ok {
			return r.character(v, i)
		}
	case *loop:
		if name, ok := key.(string); ok {
			return v.attribute(r, name)
		}
	}
	return nil
}

func (r *rendering) character(s string, i int) any {
	r.scan(len(s))
	if i < 0 {
		i += utf8.RuneCountInString(s)
	}
	for _, c := range s {
		if i == 0 {
			return string(c)
		}
		i--
	}
	return nil
}

func (r *rendering) slice(s *scope, n *nodes.GetSlice) any {
	v := r.eval(s, n.Node)
	bound := func(n nodes.Node) (int, bool) {
		if n == nil {
			return 0, false
		}
		switch i := r.eval(s, n).(type) {
		case int:
			return i, true
		case nil:
			return 0, false
		}
		fail("the bound of a slice is not an integer")
		return 0, false
	}
	start, hasStart := bound(n.Start)
	stop, hasStop := bound(n.End)
	step, hasStep := bound(n.Step)
	if !hasStep {
		step = 1
	}
	if step == 0 {
		fail("the step of a slice is 0")
	}
	var all []any
	text, isText := v.(string)
	switch l := v.(type) {
	case *list:
		all = l.items
	case string:
		all = r.runes(l)
	default:
		fail("a %s cannot be sliced", typeOf(v))
	}
	from, to := sliceBounds(len(all), start, stop, step, hasStart, hasStop)
	if isText && step == 1 {
		return text[offset(text, from):offset(text, max(from, to))]
	}
	var some []any
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		r.grow(itemBytes)
		some = append(some, all[i])
		if step > len(all) || step < -len(all) {
			break
		}
	}
	if !isText {
		return &list{some}
	}
	var b builder
	for _, c := range some {
		r.add(&b, c.(string))
	}
	return b.String()
}

// offset returns the byte offset of the nth character of a text.
func offset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// sliceBounds returns the first index and the end, by Python's rules.
func sliceBounds(n, start, stop, step int, hasStart, hasStop bool) (from, to int) {
	low, high := 0, n
	from, to = 0, n
	if step < 0 {
		low, high = -1, n-1
		from, to = n-1, -1
	}
	clamp := func(i int) int {
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	if hasStart {
		from = clamp(start)
	}
	if hasStop {
		to = clamp(stop)
	}
	return from, to
}

func (r *rendering) arguments(s *scope, all []nodes.Expression, named map[string]nodes.Expression) arguments {
	args := arguments{all: r.listOf(s, all).items}
	if len(named) > 0 {
		args.named = make(map[string]any, len(named))
		for _, name := range slices.Sorted(maps.Keys(named)) {
			r.grow(pairBytes)
			args.named[name] = r.eval(s, named[name])
		}
	}
	return args
}

// callNode calls a function, a macro or a method.
func (r *rendering) callNode(s *scope, n *nodes.Call) any {
	access, isMethod := n.Func.(*nodes.GetAttribute)
	if !isMethod || access.Attribute == "" {
		return r.call(r.eval(s, n.Func), r.arguments(s, n.Args, n.Kwargs))
	}
	self := r.eval(s, access.Node)
	args := r.arguments(s, n.Args, n.Kwargs)
	switch v := self.(type) {
	case *object:
		if f := v.values[access.Attribute]; isCallable(f) {
			return r.call(f, args)
		}
	case *loop:
		return r.call(v.attribute(r, access.Attribute), args)
	}
	return r.method(self, access.Attribute, args)
}

func isCallable(v any) bool {
	switch v.(type) {
	case *callable, *macro, *loop:
		return true
	}
	return false
}

func (r *rendering) call(f any, args arguments) any {
	switch f := f.(type) {
	case *callable:
		return f.call(r, args)
	case *macro:
		return f.call(r, args)
	case *loop:
		return f.recurse(r, args)
	}
	fail("a %s is not callable", typeOf(f))
	return nil
}
