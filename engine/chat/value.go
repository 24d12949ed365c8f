package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// ordered turns whatever encodes to JSON into what templates work on. Objects keep the order of their keys.
func ordered(v any) (any, error) {
	b, err := json.Marshal(v)
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
		return t.Float64()
	case json.Delim:
		if t == '[' {
			return nextList(d)
		}
		return nextObject(d)
	}
	return token, nil
}

func nextList(d *json.Decoder) (any, error) {
	items := []any{}
	for d.More() {
		item, err := next(d)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := d.Token()
	return items, err
}

func nextObject(d *json.Decoder) (any, error) {
	object := exec.NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := next(d)
		if err != nil {
			return nil, err
		}
		object.Pairs = append(object.Pairs, &exec.Pair{Key: exec.AsValue(key), Value: exec.AsValue(value)})
	}
	_, err := d.Token()
	if len(object.Pairs) == 0 { // gonja takes an empty Dict for true
		return map[string]any{}, err
	}
	return object, err
}

// pairs are the keys and values of an object, in its order.
func pairs(object *exec.Value) []*exec.Pair {
	var all []*exec.Pair
	for _, key := range object.Keys() {
		value, _ := object.GetItem(key.String())
		all = append(all, &exec.Pair{Key: key, Value: value})
	}
	return all
}

func items(object *exec.Value) []any {
	all := []any{}
	for _, p := range pairs(object) {
		all = append(all, []any{p.Key, p.Value})
	}
	return all
}

// itemsOf is the filter items.
func itemsOf(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	if !in.IsDict() {
		return exec.AsValue(fmt.Errorf("items of %q, which is no object", in.String()))
	}
	return exec.AsValue(items(in))
}

// methods are those of Python's types. Objects' keep the order of the keys.
func methods() exec.Methods {
	m := builtins.Methods
	object := func(of func(self *exec.Value) []any) exec.Method[map[string]any] {
		return func(_ map[string]any, self *exec.Value, _ *exec.VarArgs) (any, error) { return of(self), nil }
	}
	dict := map[string]exec.Method[map[string]any]{
		"items": object(items),
		"keys": object(func(self *exec.Value) []any {
			all := []any{}
			for _, p := range pairs(self) {
				all = append(all, p.Key)
			}
			return all
		}),
		"values": object(func(self *exec.Value) []any {
			all := []any{}
			for _, p := range pairs(self) {
				all = append(all, p.Value)
			}
			return all
		}),
	}
	for _, name := range strings.Fields("get pop setdefault update copy clear") {
		dict[name], _ = builtins.Methods.Dict.Get(name)
	}
	m.Dict = exec.NewMethodSet(dict)
	return m
}
