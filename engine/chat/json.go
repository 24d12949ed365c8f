package chat

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// toJSON is the filter tojson as transformers has it: Python's json.dumps with its blanks, the keys in their order, and
// nothing escaped that need not be.
func toJSON(_ *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	w := jsonWriter{indent: -1}
	for name, value := range args.KwArgs {
		switch {
		case name == "indent" && value.IsInteger() && value.Integer() <= 16:
			w.indent = value.Integer()
		case name == "indent" && value.IsNil(), name == "ensure_ascii" && !value.IsTrue(), name == "sort_keys" && !value.IsTrue():
		default:
			return exec.AsValue(fmt.Errorf("tojson: %s=%s is not supported", name, value))
		}
	}
	if err := w.write(in, 0); err != nil {
		return exec.AsValue(err)
	}
	return exec.AsSafeValue(w.String())
}

type jsonWriter struct {
	strings.Builder
	indent int // -1: all on one line
}

func (w *jsonWriter) write(v *exec.Value, depth int) error {
	if inner, ok := v.Interface().(*exec.Value); ok {
		v = inner
	}
	switch {
	case depth > maxDepth:
		return fmt.Errorf("tojson: the value is more than %d deep", maxDepth)
	case v.IsError():
		return v
	case v.IsNil():
		w.WriteString("null")
	case v.IsBool():
		w.WriteString(strconv.FormatBool(v.Bool()))
	case v.IsInteger():
		w.WriteString(strconv.Itoa(v.Integer()))
	case v.IsFloat():
		w.WriteString(float(v.Float()))
	case v.IsString():
		w.quote(v.String())
	case v.IsDict():
		all := pairs(v)
		return w.group('{', '}', len(all), depth, func(i int) error {
			w.quote(all[i].Key.String())
			w.WriteString(": ")
			return w.write(all[i].Value, depth+1)
		})
	case v.IsList():
		return w.group('[', ']', v.Len(), depth, func(i int) error { return w.write(v.Index(i), depth+1) })
	default:
		return fmt.Errorf("tojson: %q is no JSON value", v.String())
	}
	return nil
}

// group writes n items between brackets.
func (w *jsonWriter) group(open, end byte, n, depth int, item func(i int) error) error {
	w.WriteByte(open)
	for i := range n {
		if i > 0 {
			w.WriteByte(',')
		}
		w.gap(i > 0, depth+1)
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		w.gap(false, depth)
	}
	w.WriteByte(end)
	return nil
}

// gap goes to the next item: to a line of its own, or past a blank.
func (w *jsonWriter) gap(blank bool, depth int) {
	switch {
	case w.indent >= 0:
		w.WriteString("\n" + strings.Repeat(" ", w.indent*depth))
	case blank:
		w.WriteByte(' ')
	}
}

var escapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (w *jsonWriter) quote(s string) {
	w.WriteByte('"')
	for _, r := range s {
		if escape, ok := escapes[r]; ok {
			w.WriteString(escape)
		} else if r < ' ' {
			fmt.Fprintf(w, `\u%04x`, r)
		} else {
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
}

// float writes a number as Python does.
func float(f float64) string {
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
