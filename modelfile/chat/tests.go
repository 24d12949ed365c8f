package chat

import "strings"

// testFunctions are the supported tests, as in "x is defined". first is the argument.
var testFunctions = map[string]func(r *rendering, v, first any) bool{
	"defined":     func(_ *rendering, v, _ any) bool { return v != nil },
	"undefined":   func(_ *rendering, v, _ any) bool { return v == nil },
	"none":        func(_ *rendering, v, _ any) bool { return v == nil },
	"string":      func(_ *rendering, v, _ any) bool { _, ok := v.(string); return ok },
	"number":      func(_ *rendering, v, _ any) bool { _, ok := number(v); return ok },
	"integer":     func(_ *rendering, v, _ any) bool { _, ok := v.(int); return ok },
	"float":       func(_ *rendering, v, _ any) bool { _, ok := v.(float64); return ok },
	"boolean":     func(_ *rendering, v, _ any) bool { _, ok := v.(bool); return ok },
	"true":        func(_ *rendering, v, _ any) bool { return v == true },
	"false":       func(_ *rendering, v, _ any) bool { return v == false },
	"mapping":     func(_ *rendering, v, _ any) bool { _, ok := v.(*object); return ok },
	"sequence":    func(_ *rendering, v, _ any) bool { _, ok := v.(*list); return ok },
	"callable":    func(_ *rendering, v, _ any) bool { return isCallable(v) },
	"iterable":    iterable,
	"even":        func(_ *rendering, v, _ any) bool { n, ok := v.(int); return ok && n%2 == 0 },
	"odd":         func(_ *rendering, v, _ any) bool { n, ok := v.(int); return ok && n%2 != 0 },
	"divisibleby": func(_ *rendering, v, first any) bool { return wholeOf(v)%nonZero(first) == 0 },
	"lower":       func(r *rendering, v, _ any) bool { return sameCase(r, v, strings.ToLower) },
	"upper":       func(r *rendering, v, _ any) bool { return sameCase(r, v, strings.ToUpper) },
	"in":          func(r *rendering, v, first any) bool { return r.contains(first, v) },
	"sameas":      func(_ *rendering, v, first any) bool { return v == first },
	"eq":          equals,
	"equalto":     equals,
	"==":          equals,
	"ne":          func(r *rendering, v, first any) bool { return !equals(r, v, first) },
	"!=":          func(r *rendering, v, first any) bool { return !equals(r, v, first) },
	"gt":          greater,
	"greaterthan": greater,
	">":           greater,
	"ge":          func(r *rendering, v, first any) bool { return r.compare(v, first) >= 0 },
	">=":          func(r *rendering, v, first any) bool { return r.compare(v, first) >= 0 },
	"lt":          less,
	"lessthan":    less,
	"<":           less,
	"le":          func(r *rendering, v, first any) bool { return r.compare(v, first) <= 0 },
	"<=":          func(r *rendering, v, first any) bool { return r.compare(v, first) <= 0 },
}

func (r *rendering) test(name string, v any, args arguments) bool {
	test, ok := testFunctions[name]
	if !ok {
		fail("unknown test")
	}
	return test(r, v, args.first())
}

// first returns the first argument, or None.
func (a arguments) first() any {
	if len(a.all) == 0 {
		return nil
	}
	return a.all[0]
}

func equals(r *rendering, v, first any) bool  { return r.equal(v, first, 0) }
func greater(r *rendering, v, first any) bool { return r.compare(v, first) > 0 }
func less(r *rendering, v, first any) bool    { return r.compare(v, first) < 0 }

func iterable(_ *rendering, v, _ any) bool {
	switch v.(type) {
	case string, *list, *object:
		return true
	}
	return false
}

func sameCase(r *rendering, v any, change func(string) string) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	r.grow(3 * len(s)) // changing its case may lengthen a letter
	return change(s) == s
}

func wholeOf(v any) int {
	n, ok := v.(int)
	if !ok {
		fail("a %s is not an integer", typeOf(v))
	}
	return n
}

func nonZero(v any) int {
	n := wholeOf(v)
	if n == 0 {
		fail("divide by zero")
	}
	return n
}
