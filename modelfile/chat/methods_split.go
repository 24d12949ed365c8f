package chat

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// split implements Python's split and rsplit. Without a separator it splits at blanks.
func split(r *rendering, s string, p *parameters, fromRight bool) any {
	separator, most := p.take("sep", nil), p.whole("maxsplit", -1)
	by, given := separator.(string)
	if separator != nil && (!given || by == "") {
		fail("%s: the separator must be a non-empty string", p.what)
	}
	out := &list{}
	add := func(part string) {
		r.grow(2 * itemBytes)
		out.items = append(out.items, part)
	}
	r.scan(len(s))
	for n := 0; ; n++ {
		r.work(1)
		if !given {
			if s = strings.TrimFunc(s, unicode.IsSpace); s == "" {
				break
			}
		}
		part, rest, more := cut(s, by, given, fromRight)
		if !more || most >= 0 && n >= most {
			add(s)
			break
		}
		add(part)
		s = rest
	}
	if fromRight {
		slices.Reverse(out.items)
	}
	return out
}

// cut returns the first part, or from the right the last part, and the rest.
func cut(s, by string, given, fromRight bool) (part, rest string, more bool) {
	i, width := 0, len(by)
	switch {
	case given && fromRight:
		i = strings.LastIndex(s, by)
	case given:
		i = strings.Index(s, by)
	case fromRight:
		i, width = strings.LastIndexFunc(s, unicode.IsSpace), 1
	default:
		i, width = strings.IndexFunc(s, unicode.IsSpace), 1
	}
	if i < 0 {
		return s, "", false
	}
	if !given { // a blank may have several bytes
		for _, c := range s[i:] {
			width = len(string(c))
			break
		}
	}
	if fromRight {
		return s[i+width:], s[:i], true
	}
	return s[:i], s[i+width:], true
}

func splitlines(r *rendering, s string, p *parameters) any {
	keep := p.flag("keepends")
	out := &list{}
	r.scan(len(s))
	for s != "" {
		r.grow(2 * itemBytes)
		end := strings.IndexAny(s, "\r\n")
		if end < 0 {
			out.items = append(out.items, s)
			break
		}
		next := end + 1
		if strings.HasPrefix(s[end:], "\r\n") {
			next++
		}
		if keep {
			end = next
		}
		out.items = append(out.items, s[:end])
		s = s[next:]
	}
	return out
}

func partition(r *rendering, s string, p *parameters) any {
	by := p.text("sep", "")
	if by == "" {
		fail("partition: the separator is empty")
	}
	r.scan(len(s))
	before, after, found := strings.Cut(s, by)
	if !found {
		by = ""
	}
	r.list(3)
	return &list{[]any{before, by, after}}
}

// format implements Python's format for fields that have a number, a name or neither, without
// format specifications.
func format(r *rendering, s string, p *parameters) any {
	var b builder
	n := 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			r.add(&b, s)
			break
		}
		r.add(&b, s[:i])
		if s[i:i+1] == s[i+1:min(i+2, len(s))] { // doubled
			r.add(&b, s[i:i+1])
			s = s[i+2:]
			continue
		}
		name, rest, closed := strings.Cut(s[i+1:], "}")
		if s[i] == '}' || !closed || strings.ContainsAny(name, "{:!.[") {
			fail("format: only {}, {0} and {name} are supported")
		}
		r.add(&b, r.str(p.field(name, &n)))
		s = rest
	}
	return b.String()
}

// field returns the argument for a field. n counts the fields without a name.
func (p *parameters) field(name string, n *int) any {
	if v, ok := p.args.named[name]; ok {
		return v
	}
	i := *n
	if name == "" {
		*n++
	} else if number, err := strconv.Atoi(name); err == nil {
		i = number
	} else {
		i = -1
	}
	if i < 0 || i >= len(p.args.all) {
		fail("format: an argument is missing")
	}
	return p.args.all[i]
}
