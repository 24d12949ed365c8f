package scenario

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// keyOf returns the key of a field, or nothing if it has none.
func keyOf(field reflect.StructField) string {
	if !field.IsExported() {
		return ""
	}
	key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
	return key
}

func mapKeys(m reflect.Value) (keys []string) {
	if m.Type().Key().Kind() != reflect.String {
		return nil
	}
	for _, k := range m.MapKeys() {
		keys = append(keys, k.String())
	}
	slices.Sort(keys)
	return keys
}

// keysOf returns the paths of all values below v, the elements of lists by number and by name.
func keysOf(v reflect.Value, path string) (all []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return keysOf(reflect.Zero(v.Type().Elem()), path)
		}
		return keysOf(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			if key := keyOf(v.Type().Field(i)); key != "" {
				all = append(all, keysOf(v.Field(i), strings.TrimPrefix(path+"."+key, "."))...)
			}
		}
	case reflect.Slice:
		for i, name := range elementNames(v) {
			all = append(all, keysOf(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
			if name != "" {
				all = append(all, keysOf(v.Index(i), path+"."+name)...)
			}
		}
	case reflect.Map:
		for _, key := range mapKeys(v) {
			all = append(all, keysOf(v.MapIndex(reflect.ValueOf(key)), path+"."+key)...)
		}
	}
	if len(all) == 0 {
		return []string{path}
	}
	return all
}

// nearest returns the key that differs least from one, in the number of letters to insert, remove or
// replace. One that ends in all of the wrong key is nearer than any other.
func nearest(wrong string, keys []string) (best string) {
	least := math.MaxInt
	for _, k := range keys {
		d := 2 * distance(wrong, k)
		if strings.HasSuffix(k, "."+wrong) {
			d = 1
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// distance returns the Levenshtein distance of two texts.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
