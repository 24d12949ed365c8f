package chat

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// copied returns a new list with the items.
func (r *rendering) copied(items []any) *list {
	r.list(len(items))
	return &list{slices.Clone(items)}
}

// path returns an attribute such as "a.b.0" of a value, or an item by its index.
func (r *rendering) path(v, attribute any) any {
	name, ok := attribute.(string)
	if !ok {
		return r.item(v, attribute)
	}
	for more := true; more; {
		var part string
		part, name, more = strings.Cut(name, ".")
		r.work(1)
		if i, err := strconv.Atoi(part); err == nil {
			v = r.item(v, i)
		} else if v != nil {
			v = r.item(v, part)
		}
	}
	return v
}

// sortBy sorts items by key and charges the work first.
func (r *rendering) sortBy(items []any, key func(any) any, sensitive, backward bool) *list {
	type keyed struct{ key, item any }
	n := len(items)
	r.repeat(n, 2*itemBytes)
	r.work(n * bits.Len(uint(n)))
	all := make([]keyed, n)
	for i, item := range items {
		k := key(item)
		if text, ok := k.(string); ok && !sensitive {
			k = r.lower(text)
		}
		all[i] = keyed{k, item}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if backward {
			return r.compare(b.key, a.key)
		}
		return r.compare(a.key, b.key)
	})
	out := r.copied(items)
	for i := range all {
		out.items[i] = all[i].item
	}
	return out
}

func (r *rendering) lower(s string) string {
	r.grow(3 * len(s)) // a letter may be longer in the other case
	return strings.ToLower(s)
}

// keyOf returns a function that selects an attribute, or the value itself.
func (r *rendering) keyOf(attribute any) func(any) any {
	return func(v any) any {
		if attribute == nil {
			return v
		}
		return r.path(v, attribute)
	}
}

func sorted(r *rendering, v any, p *parameters) any {
	backward, sensitive, attribute := p.flag("reverse"), p.flag("case_sensitive"), p.take("attribute", nil)
	return r.sortBy(r.iterate(v), r.keyOf(attribute), sensitive, backward)
}

func dictsort(r *rendering, v any, p *parameters) any {
	o, ok := v.(*object)
	if !ok {
		fail("dictsort: unsupported type %s", typeOf(v))
	}
	sensitive, by, backward := p.flag("case_sensitive"), p.text("by", "key"), p.flag("reverse")
	place := 0
	if by == "value" {
		place = 1
	}
	return r.sortBy(o.pairs(r).items, func(two any) any { return two.(*list).items[place] }, sensitive, backward)
}

func groupby(r *rendering, v any, p *parameters) any {
	key := r.keyOf(p.take("attribute", nil))
	groups := &list{}
	var last *list
	var lastKey any
	for _, item := range r.sortBy(r.iterate(v), key, false, false).items {
		if k := key(item); last == nil || !r.equal(k, lastKey, 0) {
			last, lastKey = &list{}, k
			r.grow(itemBytes)
			groups.items = append(groups.items, pair(r, k, last))
		}
		r.grow(itemBytes)
		last.items = append(last.items, item)
	}
	return groups
}

func reverse(r *rendering, v any, _ *parameters) any {
	all := r.copied(r.iterate(v))
	slices.Reverse(all.items)
	if _, text := v.(string); !text {
		return all
	}
	var b builder
	for _, c := range all.items {
		r.add(&b, c.(string))
	}
	return b.String()
}

func sum(r *rendering, v any, p *parameters) any {
	attribute, total := p.take("attribute", nil), p.take("start", 0)
	for _, item := range r.iterate(v) {
		total = r.plus(total, r.keyOf(attribute)(item))
	}
	return total
}

// unique keeps the first of equal items. It looks up scalars in a map, so that they take linear
// time.
func unique(r *rendering, v any, p *parameters) any {
	sensitive, attribute := p.flag("case_sensitive"), p.take("attribute", nil)
	seen := make(map[any]bool)
	var others []any
	out := &list{}
	for _, item := range r.iterate(v) {
		key := r.keyOf(attribute)(item)
		if text, ok := key.(string); ok && !sensitive {
			key = r.lower(text)
		}
		r.grow(pairBytes)
		switch key.(type) {
		case *list, *object:
			if slices.ContainsFunc(others, func(other any) bool { return r.equal(key, other, 0) }) {
				continue
			}
			others = append(others, key)
		default:
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		out.items = append(out.items, item)
	}
	return out
}

func extreme(r *rendering, v any, p *parameters, sign int) any {
	sensitive, attribute := p.flag("case_sensitive"), p.take("attribute", nil)
	all := r.sortBy(r.iterate(v), r.keyOf(attribute), sensitive, sign > 0)
	return end(all.items, false)
}

func mapped(r *rendering, v any, p *parameters) any {
	all := r.iterate(v)
	r.list(len(all))
	out := &list{make([]any, len(all))}
	attribute, byAttribute := p.args.named["attribute"]
	otherwise := p.args.named["default"]
	name := ""
	if !byAttribute {
		name = p.text("filter", "")
		p.args = arguments{all: p.args.all[min(1, len(p.args.all)):], named: p.args.named}
	}
	for i, item := range all {
		if !byAttribute {
			out.items[i] = r.filterNamed(name, item, p.args)
		} else if out.items[i] = r.path(item, attribute); out.items[i] == nil {
			out.items[i] = otherwise
		}
	}
	return out
}

// selected keeps the items that pass a test, or with want false those that fail it.
func selected(r *rendering, v any, p *parameters, byAttribute, want bool) any {
	var attribute any
	if byAttribute {
		attribute = p.take("attribute", nil)
	}
	name := p.text("test", "")
	rest := arguments{all: p.args.all[min(p.used, len(p.args.all)):]}
	out := &list{}
	for _, item := range r.iterate(v) {
		value := r.keyOf(attribute)(item)
		passes := truth(value)
		if name != "" {
			passes = r.test(name, value, rest)
		}
		if passes == want {
			r.grow(itemBytes)
			out.items = append(out.items, item)
		}
	}
	return out
}

func batch(r *rendering, v any, p *parameters) any {
	size, fill := p.whole("linecount", 1), p.take("fill_with", nil)
	if size < 1 {
		fail("batch: linecount must be at least 1")
	}
	out := &list{}
	for all := r.iterate(v); len(all) > 0; {
		n := min(size, len(all))
		row := r.copied(all[:n])
		all = all[n:]
		if fill != nil {
			r.list(size)
			for len(row.items) < size {
				row.items = append(row.items, fill)
			}
		}
		r.grow(itemBytes)
		out.items = append(out.items, row)
	}
	return out
}

func sliced(r *rendering, v any, p *parameters) any {
	columns, fill := p.whole("slices", 1), p.take("fill_with", nil)
	if columns < 1 {
		fail("slice: slices must be at least 1")
	}
	r.list(columns)
	all := r.iterate(v)
	out := &list{}
	each, longer := len(all)/columns, len(all)%columns
	for i := range columns {
		n := each
		if i < longer {
			n++
		}
		column := r.copied(all[:n])
		all = all[n:]
		if fill != nil && longer > 0 && i >= longer {
			column.items = append(column.items, fill)
		}
		out.items = append(out.items, column)
	}
	return out
}
