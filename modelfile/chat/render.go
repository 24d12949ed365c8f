package chat

import (
	"strings"

	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/nodes"
)

// rendering is the state of one rendering. Its methods panic with a fault.
type rendering struct {
	budget
	out     *builder
	filters map[string]filterFunction
	line    int // of the current statement
}

// flow is the way in which a block ended.
type flow int

const (
	onward flow = iota
	broken
	continued
)

func (r *rendering) nodes(s *scope, all []nodes.Node) flow {
	for _, n := range all {
		if how := r.node(s, n); how != onward {
			return how
		}
	}
	return onward
}

func (r *rendering) body(s *scope, w *nodes.Wrapper) flow {
	if w == nil {
		return onward
	}
	return r.nodes(s, w.Nodes)
}

func (r *rendering) node(s *scope, n nodes.Node) flow {
	r.enter()
	defer func() { r.stack-- }()
	switch n := n.(type) {
	case *nodes.Data:
		r.add(r.out, trimmed(n))
	case *nodes.Output:
		r.line = n.Start.Line
		v := any(nil)
		switch {
		case n.Condition == nil || truth(r.eval(s, n.Condition)):
			v = r.eval(s, n.Expression)
		case n.Alternative != nil:
			v = r.eval(s, n.Alternative)
		}
		r.add(r.out, r.str(v))
	case *nodes.ControlStructureBlock:
		r.line = n.Location.Line
		return r.tag(s, n.ControlStructure)
	}
	return onward
}

// trimmed returns the text between tags, without the blanks that the tags remove.
func trimmed(n *nodes.Data) string {
	text := n.Data.Val
	if n.RemoveFirstLineReturn {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "\r\n"), "\n")
	}
	if n.Trim.Left {
		text = strings.TrimLeft(text, " \r\n\t")
	}
	if n.Trim.Right {
		text = strings.TrimRight(text, " \r\n\t")
	}
	return text
}

// captured returns the output of f.
func (r *rendering) captured(f func()) string {
	outer := r.out
	r.out = &builder{}
	f()
	text := r.out.String()
	r.out = outer
	return text
}

func (r *rendering) tag(s *scope, tag nodes.ControlStructure) flow {
	switch t := tag.(type) {
	case *controls.IfControlStructure:
		return r.branch(s, t)
	case *controls.ForControlStructure:
		return r.loop(s, t, r.eval(s, t.ObjectEvaluator))
	case *controls.BreakControlStructure:
		return broken
	case *controls.ContinueControlStructure:
		return continued
	case *controls.MacroControlStructure:
		r.grow(scopeBytes)
		s.names[t.Name] = &macro{t.Macro, s}
	case *controls.CallControlStructure:
		r.callBlock(s, t)
	case *controls.DoControlStructure:
		r.eval(s, t.Expression)
	case *setTag:
		r.set(s, t)
	case *withTag:
		return r.with(s, t)
	case *filterTag:
		v := any(r.captured(func() { r.body(s.inner(), t.body) }))
		for _, call := range t.filters {
			v = r.filter(s, call, v)
		}
		r.add(r.out, r.str(v))
	case *textTag:
		return r.body(s, t.body)
	default:
		fail("unsupported tag")
	}
	return onward
}

func (r *rendering) branch(s *scope, t *controls.IfControlStructure) flow {
	for i, condition := range t.Conditions {
		if truth(r.eval(s, condition)) {
			return r.body(s, t.Wrappers[i])
		}
	}
	if len(t.Wrappers) > len(t.Conditions) {
		return r.body(s, t.Wrappers[len(t.Conditions)])
	}
	return onward
}

func (r *rendering) set(s *scope, t *setTag) {
	var v any
	switch {
	case t.body != nil:
		v = r.captured(func() { r.body(s.inner(), t.body) })
	case t.condition == nil || truth(r.eval(s, t.condition)):
		v = r.eval(s, t.value)
	default:
		v = r.eval(s, t.alternative)
	}
	var target, key any
	switch n := t.target.(type) {
	case *nodes.Name:
		r.grow(pairBytes)
		s.names[n.Name.Val] = v
		return
	case *nodes.GetAttribute:
		target, key = r.eval(s, n.Node), n.Attribute
	case *nodes.GetItem:
		target, key = r.eval(s, n.Node), r.eval(s, n.Arg)
	}
	o, ok := target.(*object)
	if !ok || !o.namespace {
		fail("only attributes of a namespace can be set")
	}
	if v == o {
		fail("a namespace cannot contain itself")
	}
	o.set(r, key, v)
}

func (r *rendering) with(s *scope, t *withTag) flow {
	inner := s.inner()
	r.grow(scopeBytes)
	for i, name := range t.names {
		inner.names[name] = r.eval(s, t.values[i])
	}
	return r.body(inner, t.body)
}
