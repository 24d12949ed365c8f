package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/parser"
)

// environment is what a template finds: gonja's own, without what reads other files.
var environment = &exec.Environment{
	Filters:           filters(),
	Tests:             builtins.Tests,
	ControlStructures: tags(),
	Methods:           methods(),
	Context:           functions(),
}

func filters() *exec.FilterSet {
	return exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters).
		Update(exec.NewFilterSet(map[string]exec.FilterFunction{"tojson": toJSON, "items": itemsOf}))
}

func tags() *exec.ControlStructureSet {
	parsers := map[string]parser.ControlStructureParser{"generation": generationParser}
	for _, name := range []string{"if", "set", "raw", "filter", "with", "do", "call", "break", "continue"} {
		parsers[name], _ = builtins.ControlStructures.Get(name)
	}
	for _, name := range []string{"for", "macro"} {
		parse, _ := builtins.ControlStructures.Get(name)
		parsers[name] = bounded(parse)
	}
	return exec.NewControlStructureSet(parsers)
}

func functions() *exec.Context {
	all := map[string]any{
		"range":           rangeOf,
		"raise_exception": func(text string) (string, error) { return "", errors.New(text) },
		"strftime_now":    func(format string) (string, error) { return strftime(time.Now(), format) },
	}
	for _, name := range []string{"namespace", "dict", "cycler", "joiner"} {
		all[name], _ = builtins.GlobalFunctions.Get(name)
	}
	return exec.NewContext(all)
}

// rangeOf is Python's range. Its items count as steps: gonja holds all of them at once.
func rangeOf(e *exec.Evaluator, args *exec.VarArgs) ([]any, error) {
	bounds := [3]int{0, 0, 1}
	for i, arg := range args.Args {
		if i > 2 || !arg.IsInteger() {
			return nil, errors.New("range takes one to three integers")
		}
		bounds[i] = arg.Integer()
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if len(args.Args) < 2 {
		start, stop = 0, bounds[0]
	}
	if step == 0 {
		return nil, errors.New("range: the step is 0")
	}
	var items []any
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if err := budgetOf(e.Environment).step(); err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	return items, nil
}

// directives are those of Python's strftime, as Go writes them.
var directives = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'j': "002", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700",
}

func strftime(now time.Time, format string) (string, error) {
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
			return "", fmt.Errorf("strftime_now: %%%c is not supported", format[i])
		default:
			b.WriteString(now.Format(layout))
		}
	}
	return b.String(), nil
}
