package scenario

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Time is a duration such as 90s. One that cannot be read is refused by checkValues, with its line.
type Time struct {
	time.Duration
	invalid string
}

// UnmarshalYAML reads a duration.
func (t *Time) UnmarshalYAML(text []byte) error {
	written := strings.Trim(strings.TrimSpace(string(text)), `"'`)
	d, err := time.ParseDuration(written)
	if t.Duration = d; err != nil {
		t.invalid = written
	}
	return nil
}

// checkValues returns an error about the first Time below a value that could not be read, or the first number that
// is infinite or none.
func (f *File) checkValues(v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return f.checkValues(v.Elem(), path)
		}
	case reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return f.wrong(path, "is %v; write a finite number", x)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := f.checkValues(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			if err := f.checkValues(v.MapIndex(key), path+"."+key.String()); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if t, ok := v.Interface().(Time); ok {
			if t.invalid != "" {
				return f.wrong(path, "is %q; write a duration such as 90s or 24h", t.invalid)
			}
			return nil
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if err := f.checkValues(v.Field(i), strings.TrimPrefix(path+"."+key, ".")); err != nil {
				return err
			}
		}
	}
	return nil
}
