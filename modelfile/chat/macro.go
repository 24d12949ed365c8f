package chat

import (
	"maps"
	"slices"

	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/nodes"
)

// macro is a macro together with the scope that defines it.
type macro struct {
	*nodes.Macro
	scope *scope
}

func (m *macro) call(r *rendering, args arguments) any { return m.render(r, args, nil) }

// render returns the output of the macro. caller is nil, or the function that returns the text of a
// call block.
func (m *macro) render(r *rendering, args arguments, caller *callable) string {
	r.round()
	r.nest()
	defer func() { r.depth-- }()
	line := r.line
	inner := m.scope.inner()
	if caller != nil {
		inner.names["caller"] = caller
	}
	known := m.bind(r, inner, args)
	extra := newObject()
	for _, name := range slices.Sorted(maps.Keys(args.named)) {
		if !known[name] {
			extra.set(r, name, args.named[name])
		}
	}
	switch {
	case m.KwArgsName != "":
		inner.names[m.KwArgsName] = extra
	case len(extra.keys) > 0:
		fail("unknown argument of a macro")
	}
	text := r.captured(func() { r.body(inner, m.Wrapper) })
	r.line = line
	return text
}

// bind sets the parameters and returns their names.
func (m *macro) bind(r *rendering, inner *scope, args arguments) map[string]bool {
	known := make(map[string]bool, len(m.Kwargs))
	for i, p := range m.Kwargs {
		r.grow(pairBytes)
		name := p.Key.(*nodes.String).Val
		known[name] = true
		v, given := args.named[name]
		switch {
		case given && i < len(args.all):
			fail("a macro's argument is given twice")
		case given:
		case i < len(args.all):
			v = args.all[i]
		default:
			v = r.eval(m.scope, p.Value)
		}
		inner.names[name] = v
	}
	rest := args.all[min(len(m.Kwargs), len(args.all)):]
	if m.VarArgsName != "" {
		inner.names[m.VarArgsName] = &list{rest}
	} else if len(rest) > 0 {
		fail("a macro got %d arguments but has %d", len(args.all), len(m.Kwargs))
	}
	return known
}

// callBlock calls a macro that can call caller() for the text of the block.
func (r *rendering) callBlock(s *scope, t *controls.CallControlStructure) {
	m, ok := r.eval(s, t.Call.Func).(*macro)
	if !ok {
		fail("{%% call %%} needs a macro")
	}
	caller := &callable{"caller", func(r *rendering, _ arguments) any {
		r.round()
		r.nest()
		defer func() { r.depth-- }()
		return r.captured(func() { r.body(s.inner(), t.Body) })
	}}
	text := m.render(r, r.arguments(s, t.Call.Args, t.Call.Kwargs), caller)
	r.add(r.out, text)
}
