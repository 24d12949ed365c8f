package chat

import (
	"fmt"
	"strconv"
	"strings"
)

// toJSON is the filter tojson of transformers: Python's json.dumps with its default spacing, keys
// in their order, and minimal escaping.
func toJSON(r *rendering, v any, p *parameters) any {
	w := jsonWriter{r: r, indent: -1}
	if len(p.args.all) > 0 {
		fail("tojson: only named arguments are supported")
	}
	for name, value := range p.args.named {
		n, isInt := value.(int)
		switch {
		case name == "indent" && isInt && n <= 16:
			w.indent = n
		case name == "indent" && value == nil,
			name == "ensure_ascii" && !truth(value),
			name == "sort_keys" && !truth(value):
		default:
			fail("tojson: %s is not supported with this value", jsonOption(name))
		}
	}
	w.write(v, 0)
	return w.String()
}

// jsonOption returns the name of an option of json.dumps, or "an option" for other names.
func jsonOption(name string) string {
	switch name {
	case "indent", "ensure_ascii", "sort_keys", "separators":
		return name
	}
	return "an option"
}

type jsonWriter struct {
	builder
	r      *rendering
	indent int // -1 means a single line
}

func (w *jsonWriter) put(s string) { w.r.add(&w.builder, s) }

func (w *jsonWriter) write(v any, depth int) {
	w.r.level(depth)
	switch v := v.(type) {
	case nil:
		w.put("null")
	case bool:
		w.put(strconv.FormatBool(v))
	case int:
		w.put(strconv.Itoa(v))
	case float64:
		w.put(float(v))
	case string:
		w.quote(v)
	case *object:
		w.group("{", "}", len(v.keys), depth, func(i int) {
			w.quote(w.r.str(v.keys[i]))
			w.put(": ")
			w.write(v.values[v.keys[i]], depth+1)
		})
	case *list:
		w.group("[", "]", len(v.items), depth, func(i int) { w.write(v.items[i], depth+1) })
	default:
		fail("tojson: a %s is not a JSON value", typeOf(v))
	}
}

// group writes n items between brackets.
func (w *jsonWriter) group(open, end string, n, depth int, item func(i int)) {
	w.put(open)
	for i := range n {
		if i > 0 {
			w.put(",")
		}
		w.gap(i > 0, depth+1)
		item(i)
	}
	if n > 0 {
		w.gap(false, depth)
	}
	w.put(end)
}

// gap separates items: by a new line, or by a blank.
func (w *jsonWriter) gap(blank bool, depth int) {
	switch {
	case w.indent >= 0:
		w.put("\n" + strings.Repeat(" ", w.indent*depth))
	case blank:
		w.put(" ")
	}
}

var escapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (w *jsonWriter) quote(s string) {
	w.put(`"`)
	plain := 0 // start of the current text without escapes
	for i, c := range s {
		escape, ok := escapes[c]
		if !ok && c < ' ' {
			escape, ok = fmt.Sprintf(`\u%04x`, c), true
		}
		if ok {
			w.put(s[plain:i])
			w.put(escape)
			plain = i + 1
		}
	}
	w.put(strings.ToValidUTF8(s[plain:], "\uFFFD"))
	w.put(`"`)
}
