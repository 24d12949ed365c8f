package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type methodFunction func(r *rendering, s string, p *parameters) any

// stringMethods are the supported methods of strings.
var stringMethods = map[string]methodFunction{
	"capitalize": func(r *rendering, s string, _ *parameters) any {
		s = r.lower(s)
		c, size := utf8.DecodeRuneInString(s)
		if size == 0 {
			return ""
		}
		return r.concat(string(unicode.ToUpper(c)), s[size:])
	},
	"center":     func(r *rendering, s string, p *parameters) any { return pad(r, s, p, 1, 2) },
	"ljust":      func(r *rendering, s string, p *parameters) any { return pad(r, s, p, 0, 1) },
	"rjust":      func(r *rendering, s string, p *parameters) any { return pad(r, s, p, 1, 1) },
	"count":      countOf,
	"endswith":   func(r *rendering, s string, p *parameters) any { return affix(r, s, p, strings.HasSuffix) },
	"startswith": func(r *rendering, s string, p *parameters) any { return affix(r, s, p, strings.HasPrefix) },
	"find":       func(r *rendering, s string, p *parameters) any { return find(r, s, p, strings.Index) },
	"rfind":      func(r *rendering, s string, p *parameters) any { return find(r, s, p, strings.LastIndex) },
	"format":     format,
	"isalnum":    every(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }),
	"isalpha":    every(unicode.IsLetter),
	"isdigit":    every(unicode.IsDigit),
	"isspace":    every(unicode.IsSpace),
	"islower":    func(r *rendering, s string, _ *parameters) any { return s != "" && sameCase(r, s, strings.ToLower) },
	"isupper":    func(r *rendering, s string, _ *parameters) any { return s != "" && sameCase(r, s, strings.ToUpper) },
	"join": func(r *rendering, s string, p *parameters) any {
		return join(r, p.take("iterable", nil), separatorOf(s))
	},
	"lower":  func(r *rendering, s string, _ *parameters) any { return r.lower(s) },
	"upper":  func(r *rendering, s string, _ *parameters) any { r.grow(3 * len(s)); return strings.ToUpper(s) },
	"title":  title,
	"strip":  func(r *rendering, s string, p *parameters) any { return strip(r, s, p, true, true) },
	"lstrip": func(r *rendering, s string, p *parameters) any { return strip(r, s, p, true, false) },
	"rstrip": func(r *rendering, s string, p *parameters) any { return strip(r, s, p, false, true) },
	"removeprefix": func(r *rendering, s string, p *parameters) any {
		return strings.TrimPrefix(s, p.text("prefix", ""))
	},
	"removesuffix": func(r *rendering, s string, p *parameters) any {
		return strings.TrimSuffix(s, p.text("suffix", ""))
	},
	"replace":    replace,
	"split":      func(r *rendering, s string, p *parameters) any { return split(r, s, p, false) },
	"rsplit":     func(r *rendering, s string, p *parameters) any { return split(r, s, p, true) },
	"splitlines": splitlines,
	"partition":  partition,
}

// method calls a method of a value. Methods that would modify an object are not supported, as in
// the sandbox of transformers.
func (r *rendering) method(self any, name string, args arguments) any {
	p := &parameters{args: args, what: name}
	r.work(1)
	switch v := self.(type) {
	case nil:
		fail("None has no methods")
	case string:
		if f, ok := stringMethods[name]; ok {
			return f(r, v, p)
		}
	case *list:
		switch name {
		case "append":
			item := p.take("item", nil)
			if item == any(v) {
				fail("a list cannot contain itself")
			}
			r.grow(itemBytes)
			v.items = append(v.items, item)
			return nil
		case "copy":
			return r.copied(v.items)
		}
	case *object:
		switch name {
		case "items":
			return v.pairs(r)
		case "keys":
			return r.copied(v.keys)
		case "values":
			all := r.copied(v.keys)
			for i, key := range v.keys {
				all.items[i] = v.values[key]
			}
			return all
		case "get":
			key, otherwise := p.take("key", nil), p.take("default", nil)
			if found := r.item(v, key); found != nil {
				return found
			}
			return otherwise
		}
	}
	fail("a %s has no such method; it is not callable", typeOf(self))
	return nil
}

func separatorOf(s string) *parameters {
	return &parameters{args: arguments{all: []any{s}}, what: "join"}
}

func pad(r *rendering, s string, p *parameters, part, of int) any {
	width, fill := p.whole("width", 80), p.text("fillchar", " ")
	missing := max(width-r.length(s), 0)
	r.repeat(missing, len(fill))
	left := missing * part / of
	if left > missing || part == of {
		left = missing
	}
	r.grow(len(s) + missing*len(fill))
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, missing-left)
}

func countOf(r *rendering, s string, p *parameters) any {
	r.scan(len(s))
	return strings.Count(s, p.text("sub", ""))
}

// affix tests for one string, or for any string of a list.
func affix(r *rendering, s string, p *parameters, has func(s, part string) bool) any {
	switch part := p.take("affix", nil).(type) {
	case string:
		r.scan(len(part))
		return has(s, part)
	case *list:
		for _, one := range part.items {
			text, _ := one.(string)
			r.scan(len(text))
			if has(s, text) {
				return true
			}
		}
		return false
	}
	fail("%s: the argument must be a string", p.what)
	return nil
}

func find(r *rendering, s string, p *parameters, index func(s, part string) int) any {
	r.scan(2 * len(s))
	i := index(s, p.text("sub", ""))
	if i < 0 {
		return -1
	}
	return utf8.RuneCountInString(s[:i])
}

func every(is func(rune) bool) methodFunction {
	return func(r *rendering, s string, _ *parameters) any {
		r.scan(len(s))
		for _, c := range s {
			if !is(c) {
				return false
			}
		}
		return s != ""
	}
}

func title(r *rendering, s string, _ *parameters) any {
	s = r.lower(s)
	r.grow(3 * len(s))
	inWord := false
	return strings.Map(func(c rune) rune {
		before := inWord
		if inWord = unicode.IsLetter(c); inWord && !before {
			return unicode.ToTitle(c)
		}
		return c
	}, s)
}

func strip(r *rendering, s string, p *parameters, left, right bool) any {
	cut, _ := p.take("chars", nil).(string)
	is := unicode.IsSpace
	if cut != "" {
		is = func(c rune) bool { r.scan(len(cut)); return strings.ContainsRune(cut, c) }
	}
	r.scan(len(s))
	if left {
		s = strings.TrimLeftFunc(s, is)
	}
	if right {
		s = strings.TrimRightFunc(s, is)
	}
	return s
}

func replace(r *rendering, s string, p *parameters) any {
	old, by, n := r.str(p.take("old", "")), r.str(p.take("new", "")), -1
	if count, ok := p.take("count", nil).(int); ok {
		n = count
	}
	r.scan(len(s))
	found := strings.Count(s, old)
	if n >= 0 {
		found = min(found, n)
	}
	r.work(found)
	r.repeat(found, len(by))
	r.grow(len(s) + found*len(by))
	return strings.Replace(s, old, by, n)
}
