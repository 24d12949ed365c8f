package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
)

// describe adds the remedy to an error of the decoder, which has the line.
func describe(err error) error {
	var unknown *yaml.UnknownFieldError
	var wrong *yaml.TypeError
	switch {
	case errors.As(err, &unknown):
		return errors.New(yaml.FormatErrorWithToken(fmt.Sprintf("unknown key %s: remove it, or correct its name; "+
			"docs/howto/simulate.md has all keys", unknown.Token.Value), unknown.Token, false, true))
	case errors.As(err, &wrong):
		return errors.New(yaml.FormatErrorWithToken(fmt.Sprintf("this must be %s", kindOf(wrong.DstType)), wrong.Token,
			false, true))
	}
	return err
}

func kindOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		return "a section"
	case t.Kind() == reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// wrong returns an error about the value at a path, such as "nodes[0].name", or about the nearest
// section above it that the file has.
func (f *File) wrong(path, format string, args ...any) error {
	message := path + " " + fmt.Sprintf(format, args...)
	for at := path; ; {
		query := "$"
		if at != "" {
			query += "." + at
		}
		if p, err := yaml.PathString(query); err == nil {
			if node, err := p.ReadNode(bytes.NewReader(f.source)); err == nil && node.GetToken() != nil {
				return fmt.Errorf("%s: %s", f.path, yaml.FormatErrorWithToken(message, node.GetToken(), false, true))
			}
		}
		if at == "" {
			return fmt.Errorf("%s: %s", f.path, message)
		}
		at = at[:max(0, strings.LastIndexAny(at, ".["))]
	}
}
