package chat

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// str implements Python's str. None and undefined values are empty strings.
func (r *rendering) str(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	var b builder
	r.write(&b, v, 0)
	return b.String()
}

// builder is a string whose growth is charged.
type builder struct{ strings.Builder }

func (r *rendering) add(b *builder, s string) {
	if len(s) > maxValue-b.Len() {
		fail("a value is longer than %d bytes", maxValue)
	}
	r.grow(len(s))
	b.WriteString(s)
}

// write writes a value as Python prints it within a list.
func (r *rendering) write(b *builder, v any, depth int) {
	r.level(depth)
	switch v := v.(type) {
	case nil:
		r.add(b, "None")
	case bool:
		r.add(b, map[bool]string{false: "False", true: "True"}[v])
	case int:
		r.add(b, strconv.Itoa(v))
	case float64:
		r.add(b, float(v))
	case string:
		r.add(b, "'")
		r.add(b, v)
		r.add(b, "'")
	case *list:
		r.add(b, "[")
		for i, item := range v.items {
			if i > 0 {
				r.add(b, ", ")
			}
			r.write(b, item, depth+1)
		}
		r.add(b, "]")
	case *object:
		r.add(b, "{")
		for i, key := range v.keys {
			if i > 0 {
				r.add(b, ", ")
			}
			r.write(b, key, depth+1)
			r.add(b, ": ")
			r.write(b, v.values[key], depth+1)
		}
		r.add(b, "}")
	default:
		r.add(b, "<function>")
	}
}

// float formats a number like Python.
func float(f float64) string {
	switch size := math.Abs(f); {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	case size != 0 && (size < 1e-4 || size >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *list:
		return len(v.items) > 0
	case *object:
		return v.namespace || len(v.keys) > 0
	}
	return true
}

func (r *rendering) equal(a, b any, depth int) bool {
	r.level(depth)
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		r.scan(min(len(x), len(y)))
		return ok && x == y
	case int, float64:
		m, _ := number(a)
		n, ok := number(b)
		if i, whole := a.(int); whole {
			if j, whole := b.(int); whole {
				return i == j
			}
		}
		return ok && m == n
	case *list:
		y, ok := b.(*list)
		if !ok || len(x.items) != len(y.items) {
			return false
		}
		for i := range x.items {
			if !r.equal(x.items[i], y.items[i], depth+1) {
				return false
			}
		}
		return true
	case *object:
		y, ok := b.(*object)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for _, key := range x.keys {
			other, found := y.values[key]
			if !found || !r.equal(x.values[key], other, depth+1) {
				return false
			}
		}
		return true
	}
	return a == b
}

// compare orders numbers and strings.
func (r *rendering) compare(a, b any) int {
	m, oneNumber := number(a)
	n, bothNumbers := number(b)
	if oneNumber && bothNumbers {
		return cmp.Compare(m, n)
	}
	x, one := a.(string)
	y, both := b.(string)
	if !one || !both {
		fail("a %s and a %s have no order", typeOf(a), typeOf(b))
	}
	r.scan(min(len(x), len(y)))
	return strings.Compare(x, y)
}

// contains implements Python's in.
func (r *rendering) contains(all, v any) bool {
	switch all := all.(type) {
	case string:
		part := r.str(v)
		r.scan(len(all))
		return strings.Contains(all, part)
	case *list:
		for _, item := range all.items {
			if r.equal(item, v, 0) {
				return true
			}
		}
	case *object:
		switch v.(type) {
		case nil, bool, int, float64, string:
			_, found := all.values[v]
			return found
		}
	}
	return false
}

// iterate returns what a loop iterates over: items, keys or characters.
func (r *rendering) iterate(v any) []any {
	switch v := v.(type) {
	case *list:
		r.work(len(v.items))
		return v.items
	case *object:
		r.work(len(v.keys))
		return v.keys
	case string:
		return r.runes(v)
	case nil:
		return nil
	}
	fail("a %s cannot be iterated", typeOf(v))
	return nil
}

func (r *rendering) runes(s string) []any {
	n := utf8.RuneCountInString(s)
	r.list(n)
	r.repeat(n, itemBytes) // each character becomes a string
	all := make([]any, 0, n)
	for _, c := range s {
		all = append(all, string(c))
	}
	return all
}

func (r *rendering) length(v any) int {
	switch v := v.(type) {
	case string:
		r.scan(len(v))
		return utf8.RuneCountInString(v)
	case *list:
		return len(v.items)
	case *object:
		return len(v.keys)
	case nil:
		return 0
	}
	fail("a %s has no length", typeOf(v))
	return 0
}

// number returns the value of an int or a float and whether v is one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
