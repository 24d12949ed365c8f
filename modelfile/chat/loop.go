package chat

import (
	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
)

// loop is the variable loop of a for block.
type loop struct {
	tag     *controls.ForControlStructure
	outer   *scope // enclosing scope
	items   []any
	index0  int
	level   int
	changed []any // last arguments of loop.changed
}

// loop renders a for block for each item. Names set in a round end with it.
func (r *rendering) loop(s *scope, t *controls.ForControlStructure, v any) flow {
	r.nest()
	defer func() { r.depth-- }()
	var all []any
	if o, ok := v.(*object); ok && t.Value != "" { // with two names, an object yields its keys and values
		all = o.pairs(r).items
	} else {
		all = r.iterate(v)
	}
	l := &loop{tag: t, outer: s, level: 1}
	if around, ok := s.get("loop").(*loop); ok {
		l.level = around.level + 1
	}
	for _, item := range all {
		r.grow(itemBytes)
		if t.IfCondition != nil {
			r.round()
			inner := s.inner()
			bind(inner, t, item)
			if !truth(r.eval(inner, t.IfCondition)) {
				continue
			}
		}
		l.items = append(l.items, item)
	}
	if len(l.items) == 0 {
		return r.body(s.inner(), t.EmptyWrapper)
	}
	for i, item := range l.items {
		r.round()
		inner := s.inner()
		bind(inner, t, item)
		l.index0 = i
		inner.names["loop"] = l
		if r.body(inner, t.BodyWrapper) == broken {
			break
		}
	}
	return onward
}

func bind(s *scope, t *controls.ForControlStructure, item any) {
	if t.Value == "" {
		s.names[t.Key] = item
		return
	}
	two, ok := item.(*list)
	if !ok || len(two.items) != 2 {
		fail("a loop with two names needs pairs")
	}
	s.names[t.Key], s.names[t.Value] = two.items[0], two.items[1]
}

// recurse implements loop(items) in a recursive loop.
func (l *loop) recurse(r *rendering, args arguments) any {
	if !l.tag.Recursive || len(args.all) != 1 {
		fail("loop can be called only in a recursive loop, with one argument")
	}
	return r.captured(func() { r.loop(l.outer, l.tag, args.all[0]) })
}

func (l *loop) attribute(r *rendering, name string) any {
	n := len(l.items)
	switch name {
	case "index":
		return l.index0 + 1
	case "index0":
		return l.index0
	case "revindex":
		return n - l.index0
	case "revindex0":
		return n - l.index0 - 1
	case "first":
		return l.index0 == 0
	case "last":
		return l.index0 == n-1
	case "length":
		return n
	case "depth":
		return l.level
	case "depth0":
		return l.level - 1
	case "previtem":
		if l.index0 == 0 {
			return nil
		}
		return l.items[l.index0-1]
	case "nextitem":
		return r.item(&list{l.items}, l.index0+1)
	case "cycle":
		return &callable{name, func(_ *rendering, args arguments) any {
			if len(args.all) == 0 {
				fail("loop.cycle needs arguments")
			}
			return args.all[l.index0%len(args.all)]
		}}
	case "changed":
		return &callable{name, func(r *rendering, args arguments) any {
			same := l.changed != nil && r.equal(&list{l.changed}, &list{args.all}, 0)
			l.changed = args.all
			return !same
		}}
	}
	return nil
}
