package costfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"troupe/core/cost"
)

// describe adds the remedy to an error of the decoder, which has line and column.
func describe(err error) error {
	var unknown *yaml.UnknownFieldError
	if !errors.As(err, &unknown) {
		return err
	}
	key := unknown.Token.Value
	remedy := "remove it, or correct its name"
	if like := nearest(key); like != "" {
		remedy = fmt.Sprintf("did you mean %s?", like)
	}
	return errors.New(yaml.FormatErrorWithToken(fmt.Sprintf("unknown key %s: %s", key, remedy), unknown.Token, false,
		true))
}

// locate shows the value that an *cost.Invalid is about, or the nearest section above it.
func locate(b []byte, err error) error {
	var invalid *cost.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	for key := invalid.Key; key != ""; {
		if path, bad := yaml.PathString("$." + key); bad == nil {
			if node, missing := path.ReadNode(bytes.NewReader(b)); missing == nil && node.GetToken() != nil {
				return errors.New(yaml.FormatErrorWithToken(invalid.Error(), node.GetToken(), false, true))
			}
		}
		key, _, _ = cutLast(key)
	}
	return err
}

func cutLast(key string) (before, after string, found bool) {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i], key[i+1:], true
	}
	return "", key, false
}

// nearest returns the key of a profile that differs least from a word, if it differs in at most a
// third of its letters.
func nearest(word string) (best string) {
	keys := make(map[string]bool)
	collectKeys(reflect.TypeFor[cost.Profile](), keys)
	least := len(word)/3 + 1
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if d := distance(word, key); d < least {
			best, least = key, d
		}
	}
	return best
}

func collectKeys(t reflect.Type, into map[string]bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
			into[name] = true
		} else if !f.Anonymous {
			into[strings.ToLower(f.Name)] = true
		}
		collectKeys(f.Type, into)
	}
}

// distance is the number of letters to insert, delete or replace to get from one word to another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
