package chat

import (
	"bytes"
	"encoding/json"
	"errors"
)

// The values of a template are nil, bool, int, float64, string, *list, *object, *callable, *macro
// and *loop. nil is both None and undefined.

type list struct{ items []any }

// object is a dict or a namespace. It keeps the order of its keys.
type object struct {
	keys      []any
	values    map[any]any
	namespace bool // the template may assign to its attributes
}

// callable is a function implemented in Go.
type callable struct {
	name string
	call func(r *rendering, args arguments) any
}

func newObject() *object { return &object{values: make(map[any]any)} }

func (o *object) set(r *rendering, key, value any) {
	switch key.(type) {
	case nil, bool, int, float64, string:
	default:
		fail("a %s cannot be a key", typeOf(key))
	}
	if _, known := o.values[key]; !known {
		r.grow(pairBytes)
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

// pair returns a key and its value as a list of two.
func pair(r *rendering, key, value any) *list {
	r.list(2)
	return &list{[]any{key, value}}
}

func (o *object) pairs(r *rendering) *list {
	r.list(len(o.keys))
	all := make([]any, len(o.keys))
	for i, key := range o.keys {
		all[i] = pair(r, key, o.values[key])
	}
	return &list{all}
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *list:
		return "list"
	case *object:
		return "dict"
	}
	return "function"
}

// ordered converts a Go value that encodes to JSON into a value of a template. Objects keep the
// order of their keys.
func ordered(v any) (any, error) {
	b, err := json.Marshal(v) // it rejects raw JSON of more than 10,000 levels
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return next(d)
}

func next(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return int(n), nil
		}
		f, err := t.Float64()
		if err != nil {
			return nil, errors.New("number out of range")
		}
		return f, nil
	case json.Delim:
		if t == '[' {
			return nextList(d)
		}
		return nextObject(d)
	}
	return token, nil
}

func nextList(d *json.Decoder) (any, error) {
	all := &list{}
	for d.More() {
		item, err := next(d)
		if err != nil {
			return nil, err
		}
		all.items = append(all.items, item)
	}
	_, err := d.Token()
	return all, err
}

func nextObject(d *json.Decoder) (any, error) {
	o := newObject()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := next(d)
		if err != nil {
			return nil, err
		}
		if _, known := o.values[key]; !known {
			o.keys = append(o.keys, key)
		}
		o.values[key] = value
	}
	_, err := d.Token()
	return o, err
}
