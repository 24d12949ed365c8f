package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"troupe/simulate"
)

// set replaces the value of a key. The key is its path in the file, as error messages print it, with
// "[0]" or ".name" for an element of a list: "deployments[0].replicas" or "deployments.chat.replicas".
// A key that the file leaves out is set too.
func (f *File) set(s simulate.Setting) error {
	err := assign(reflect.ValueOf(f).Elem(), s.Key, s.Value)
	if errors.Is(err, errNoKey) {
		return fmt.Errorf("there is no key %s in %s; the nearest is %s", s.Key, f.path,
			nearest(s.Key, keysOf(reflect.ValueOf(f).Elem(), "")))
	}
	if err != nil {
		return fmt.Errorf("%s cannot be %s: %w", s.Key, s.Value, err)
	}
	return nil
}

var errNoKey = errors.New("no such key")

// assign sets the value at a path below v, which can be set.
func assign(v reflect.Value, path, value string) error {
	if path == "" && v.Kind() != reflect.Pointer {
		return decode(v, value)
	}
	switch v.Kind() {
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			to.Elem().Set(v.Elem())
		}
		if err := assign(to.Elem(), path, value); err != nil {
			return err
		}
		v.Set(to)
		return nil
	case reflect.Slice:
		i, rest := element(v, path)
		if i < 0 {
			return errNoKey
		}
		return assign(v.Index(i), rest, value)
	case reflect.Map:
		key, rest, ok := longest(path, mapKeys(v))
		if !ok {
			return errNoKey
		}
		to := reflect.New(v.Type().Elem()).Elem() // the values of maps cannot be changed in place
		to.Set(v.MapIndex(reflect.ValueOf(key)))
		if err := assign(to, rest, value); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key), to)
		return nil
	case reflect.Struct:
		for i := range v.NumField() {
			if key := keyOf(v.Type().Field(i)); key != "" {
				if _, rest, ok := longest(path, []string{key}); ok {
					return assign(v.Field(i), rest, value)
				}
			}
		}
	}
	return errNoKey
}

// decode reads a value as in the file.
func decode(v reflect.Value, value string) error {
	v.SetZero()
	err := yaml.NewDecoder(bytes.NewReader([]byte(value)), yaml.Strict()).Decode(v.Addr().Interface())
	switch wrong := (*yaml.TypeError)(nil); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("this must be %s", kindOf(v.Type()))
	case errors.As(err, &wrong):
		return fmt.Errorf("this must be %s", kindOf(wrong.DstType))
	}
	return err
}

// longest returns the longest key with which a path begins, and the rest of the path: what is behind the
// dot after the key, or the bracket with its content.
func longest(path string, keys []string) (key, rest string, ok bool) {
	for _, k := range keys {
		after, begins := strings.CutPrefix(path, k)
		if begins && (after == "" || after[0] == '.' || after[0] == '[') && (!ok || len(k) > len(key)) {
			key, rest, ok = k, strings.TrimPrefix(after, "."), true
		}
	}
	return key, rest, ok
}

// element returns the index of the element of a list with which a path begins, and the rest of the path.
func element(list reflect.Value, path string) (index int, rest string) {
	if number, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]"); ok && path[0] == '[' {
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= list.Len() {
			return -1, ""
		}
		return i, strings.TrimPrefix(rest, ".")
	}
	names := elementNames(list)
	name, rest, ok := longest(path, names)
	if !ok {
		return -1, ""
	}
	for i, n := range names {
		if n == name {
			return i, rest
		}
	}
	return -1, ""
}

// elementNames returns what the elements of a list are called: by their name, or by their deployment. An
// element without either, and one that is called like another, has an empty name.
func elementNames(list reflect.Value) []string {
	names := make([]string, list.Len())
	count := make(map[string]int)
	for i := range names {
		e := list.Index(i)
		if e.Kind() != reflect.Struct {
			continue
		}
		for _, field := range []string{"Name", "Deployment"} {
			if n := e.FieldByName(field); names[i] == "" && n.IsValid() && n.Kind() == reflect.String {
				names[i] = n.String()
			}
		}
		count[names[i]]++
	}
	for i, n := range names {
		if count[n] > 1 {
			names[i] = ""
		}
	}
	return names
}
