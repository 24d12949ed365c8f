package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// globals are the functions that templates may call.
var globals = &scope{names: map[string]any{
	"range":           &callable{"range", rangeOf},
	"raise_exception": &callable{"raise_exception", raise},
	"strftime_now":    &callable{"strftime_now", strftimeNow},
	"namespace": &callable{
		"namespace",
		func(r *rendering, args arguments) any { return objectOf(r, args, true) },
	},
	"dict":   &callable{"dict", func(r *rendering, args arguments) any { return objectOf(r, args, false) }},
	"joiner": &callable{"joiner", joiner},
	"cycler": &callable{"cycler", cycler},
}}

func raise(r *rendering, args arguments) any {
	panic(fault{err: fmt.Errorf("%s", r.str(args.first())), raised: true})
}

func strftimeNow(r *rendering, args arguments) any {
	layout, ok := args.first().(string)
	if !ok {
		fail("strftime_now: the format must be a string")
	}
	r.repeat(10, len(layout)) // a directive of two bytes writes at most nine bytes
	return strftime(time.Now(), layout)
}

// objectOf returns an object with the pairs of an optional object argument and the named arguments.
func objectOf(r *rendering, args arguments, namespace bool) any {
	o := newObject()
	if from, ok := args.first().(*object); ok {
		for _, key := range from.keys {
			o.set(r, key, from.values[key])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args.named)) {
		o.set(r, name, args.named[name])
	}
	o.namespace = namespace
	return o
}

// joiner returns a function that returns nothing at the first call, and the separator afterwards.
func joiner(r *rendering, args arguments) any {
	p := &parameters{args: args, what: "joiner"}
	separator, called := p.text("sep", ", "), false
	r.grow(pairBytes)
	return &callable{"joiner", func(*rendering, arguments) any {
		if !called {
			called = true
			return ""
		}
		return separator
	}}
}

// cycler returns an object whose function next returns its arguments in turn.
func cycler(r *rendering, args arguments) any {
	if len(args.all) == 0 {
		fail("cycler needs arguments")
	}
	i := 0
	o := newObject()
	o.set(r, "current", args.all[0])
	step := func(to int, answer bool) any {
		now := args.all[i]
		i = to % len(args.all)
		o.values["current"] = args.all[i]
		if !answer {
			return nil
		}
		return now
	}
	o.set(r, "next", &callable{"next", func(*rendering, arguments) any { return step(i+1, true) }})
	o.set(r, "reset", &callable{"reset", func(*rendering, arguments) any { return step(0, false) }})
	return o
}

// rangeOf is Python's range. Its items count as loop rounds.
func rangeOf(r *rendering, args arguments) any {
	bounds := [3]int{0, 0, 1}
	if n := len(args.all); n < 1 || n > 3 {
		fail("range takes one to three integers")
	}
	for i, arg := range args.all {
		bounds[i] = wholeOf(arg)
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if len(args.all) == 1 {
		start, stop = 0, bounds[0]
	}
	if step == 0 {
		fail("range: the step is 0")
	}
	items := &list{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; {
		r.round()
		items.items = append(items.items, i)
		if next := i + step; (next > i) == (step > 0) {
			i = next
		} else { // overflow
			break
		}
	}
	return items
}

// directives maps directives of Python's strftime to Go's layouts.
var directives = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'j': "002", 'B': "January", 'b': "Jan", 'A': "Monday",
	'a': "Mon",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700",
}

func strftime(now time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		layout, ok := directives[format[i]]
		switch {
		case format[i] == '%':
			b.WriteByte('%')
		case !ok:
			fail("strftime_now: unsupported directive")
		default:
			b.WriteString(now.Format(layout))
		}
	}
	return b.String()
}
