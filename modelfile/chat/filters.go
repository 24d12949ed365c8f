package chat

import (
	"math"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/nodes"
)

type filterFunction func(r *rendering, v any, p *parameters) any

// filterFunctions are the supported filters.
var filterFunctions = map[string]filterFunction{
	"abs":         abs,
	"capitalize":  stringFilter("capitalize"),
	"center":      stringFilter("center"),
	"lower":       stringFilter("lower"),
	"replace":     stringFilter("replace"),
	"title":       stringFilter("title"),
	"trim":        stringFilter("strip"),
	"upper":       stringFilter("upper"),
	"default":     byDefault,
	"d":           byDefault,
	"e":           escape,
	"escape":      escape,
	"forceescape": escape,
	"first":       func(r *rendering, v any, _ *parameters) any { return end(r.iterate(v), false) },
	"last":        func(r *rendering, v any, _ *parameters) any { return end(r.iterate(v), true) },
	"float":       toFloat,
	"int":         toInt,
	"round":       round,
	"indent":      indent,
	"items":       func(r *rendering, v any, p *parameters) any { return r.method(v, "items", p.args) },
	"join":        join,
	"length":      func(r *rendering, v any, _ *parameters) any { return r.length(v) },
	"count":       func(r *rendering, v any, _ *parameters) any { return r.length(v) },
	"list":        func(r *rendering, v any, _ *parameters) any { return r.copied(r.iterate(v)) },
	"safe":        func(_ *rendering, v any, _ *parameters) any { return v },
	"string":      func(r *rendering, v any, _ *parameters) any { return r.str(v) },
	"tojson":      toJSON,
	"wordcount":   wordcount,
	"batch":       batch,
	"slice":       sliced,
	"dictsort":    dictsort,
	"groupby":     groupby,
	"map":         mapped,
	"max":         func(r *rendering, v any, p *parameters) any { return extreme(r, v, p, 1) },
	"min":         func(r *rendering, v any, p *parameters) any { return extreme(r, v, p, -1) },
	"reject":      func(r *rendering, v any, p *parameters) any { return selected(r, v, p, false, false) },
	"rejectattr":  func(r *rendering, v any, p *parameters) any { return selected(r, v, p, true, false) },
	"select":      func(r *rendering, v any, p *parameters) any { return selected(r, v, p, false, true) },
	"selectattr":  func(r *rendering, v any, p *parameters) any { return selected(r, v, p, true, true) },
	"reverse":     reverse,
	"sort":        sorted,
	"sum":         sum,
	"unique":      unique,
}

// refusedFilters are the other filters of Jinja.
var refusedFilters = map[string]bool{
	"attr": true, "filesizeformat": true, "format": true, "pprint": true, "random": true, "striptags": true,
	"truncate": true, "urlencode": true, "urlize": true, "wordwrap": true, "xmlattr": true,
}

func (r *rendering) filter(s *scope, call *nodes.FilterCall, v any) any {
	return r.filterNamed(call.Name, v, r.arguments(s, call.Args, call.Kwargs))
}

func (r *rendering) filterNamed(name string, v any, args arguments) any {
	f, ok := r.filters[name]
	if !ok {
		fail("unknown filter")
	}
	r.work(1)
	return f(r, v, &parameters{args: args, what: name})
}

// stringFilter makes a filter from a method of strings.
func stringFilter(method string) filterFunction {
	return func(r *rendering, v any, p *parameters) any { return r.method(r.str(v), method, p.args) }
}

func abs(_ *rendering, v any, _ *parameters) any {
	switch v := v.(type) {
	case int:
		return max(v, -v)
	case float64:
		return math.Abs(v)
	}
	fail("abs: unsupported type %s", typeOf(v))
	return nil
}

func byDefault(_ *rendering, v any, p *parameters) any {
	otherwise, anyFalse := p.take("default_value", ""), p.flag("boolean")
	if v == nil || anyFalse && !truth(v) {
		return otherwise
	}
	return v
}

var escaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", `"`, "&#34;", "'", "&#39;")

func escape(r *rendering, v any, _ *parameters) any {
	s := r.str(v)
	r.repeat(5, len(s))
	return escaper.Replace(s)
}

func end(all []any, last bool) any {
	switch {
	case len(all) == 0:
		return nil
	case last:
		return all[len(all)-1]
	}
	return all[0]
}

func toFloat(_ *rendering, v any, p *parameters) any {
	otherwise := p.take("default", 0.0)
	switch v := v.(type) {
	case string:
		if f, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
			return f
		}
	case bool:
		return float64(orZero(v).(int))
	default:
		if f, ok := number(v); ok {
			return f
		}
	}
	return otherwise
}

func toInt(_ *rendering, v any, p *parameters) any {
	otherwise, base := p.take("default", 0), p.whole("base", 10)
	switch v := v.(type) {
	case string:
		if base >= 2 && base <= 36 {
			if n, err := strconv.ParseInt(strings.TrimSpace(v), base, 64); err == nil {
				return int(n)
			}
		}
		if f, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
			return int(f)
		}
	case bool:
		return orZero(v)
	case int:
		return v
	case float64:
		return int(v)
	}
	return otherwise
}

func round(_ *rendering, v any, p *parameters) any {
	f, ok := number(v)
	if !ok {
		fail("round: unsupported type %s", typeOf(v))
	}
	scale := math.Pow(10, float64(p.whole("precision", 0)))
	switch p.text("method", "common") {
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	}
	return math.Round(f*scale) / scale
}

func indent(r *rendering, v any, p *parameters) any {
	s := r.str(v)
	margin := ""
	switch width := p.take("width", 4).(type) {
	case int:
		r.repeat(width, 1)
		margin = strings.Repeat(" ", max(width, 0))
	case string:
		margin = width
	default:
		fail("indent: width must be an integer or a string")
	}
	first, blank := p.flag("first"), p.flag("blank")
	var b builder
	for i, rest := 0, s; ; i++ {
		line, after, more := strings.Cut(rest, "\n")
		r.scan(len(line))
		if i == 0 && first || i > 0 && (line != "" || blank) {
			r.add(&b, margin)
		}
		r.add(&b, line)
		if rest = after; !more {
			return b.String()
		}
		r.add(&b, "\n")
	}
}

func join(r *rendering, v any, p *parameters) any {
	separator, attribute := r.str(p.take("d", "")), p.take("attribute", nil)
	var b builder
	for i, item := range r.iterate(v) {
		if i > 0 {
			r.add(&b, separator)
		}
		if attribute != nil {
			item = r.path(item, attribute)
		}
		r.add(&b, r.str(item))
	}
	return b.String()
}

func wordcount(r *rendering, v any, _ *parameters) any {
	s := r.str(v)
	r.repeat(len(s)/2+1, itemBytes)
	return len(strings.Fields(s))
}
