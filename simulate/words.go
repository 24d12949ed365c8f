package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// field is a key of a JSON object with its value: a text, a list of values, or the fields of an object.
type field struct {
	key   string
	value any
}

// parseLine parses a line of a record. The fields are in the order of the line. It reports false if the
// line is no JSON object.
func parseLine(line string) ([]field, bool) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	v, err := parseValue(d)
	fields, ok := v.([]field)
	return fields, ok && err == nil
}

func parseValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		fields := []field{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			fields = append(fields, field{fmt.Sprint(key), v})
		}
		_, err = d.Token()
		return fields, err
	}
	return fmt.Sprint(t), nil
}

// inWords describes a line of a record: "at 3.5 s, step: replica m-0, step 2, prompt 44".
func inWords(line string) string {
	if line == "" {
		return "nothing, it ends before"
	}
	fields, ok := parseLine(line)
	if !ok {
		return line
	}
	if len(fields) > 2 && fields[0].key == "at" && fields[1].key == "event" {
		at := strings.TrimRight(strings.TrimRight(fmt.Sprint(fields[0].value), "0"), ".")
		return fmt.Sprintf("at %s s, %v: %s", at, fields[1].value, wordsOf(fields[2:]))
	}
	return wordsOf(fields)
}

func wordsOf(fields []field) string {
	words := make([]string, len(fields))
	for i, f := range fields {
		words[i] = f.key + " " + valueInWords(f.value)
	}
	return strings.Join(words, ", ")
}

// valueInWords describes a value. An object is called by its first field.
func valueInWords(v any) string {
	switch v := v.(type) {
	case []any:
		words := make([]string, len(v))
		for i, e := range v {
			words[i] = valueInWords(e)
		}
		if len(v) > 0 {
			if _, objects := v[0].([]field); objects {
				return strings.Join(words, ", ")
			}
		}
		return "[" + strings.Join(words, " ") + "]"
	case []field:
		if len(v) == 0 {
			return "{}"
		}
		return fmt.Sprintf("%s (%s)", valueInWords(v[0].value), wordsOf(v[1:]))
	}
	return fmt.Sprint(v)
}

// mostChanges is the largest number of changes that are listed.
const mostChanges = 5

// changesOf lists the values that differ between two lines: "candidates[0].cost was 300 and is 310".
func changesOf(recorded, replayed string) string {
	a, b := leavesOf(recorded), leavesOf(replayed)
	var changes []string
	for _, was := range a {
		at := slices.IndexFunc(b, func(is field) bool { return is.key == was.key })
		switch {
		case at < 0:
			changes = append(changes, fmt.Sprintf("%s was %v and is missing", was.key, was.value))
		case b[at].value != was.value:
			changes = append(changes, fmt.Sprintf("%s was %v and is %v", was.key, was.value, b[at].value))
		}
	}
	for _, is := range b {
		if !slices.ContainsFunc(a, func(was field) bool { return was.key == is.key }) {
			changes = append(changes, fmt.Sprintf("%s is new: %v", is.key, is.value))
		}
	}
	switch more := len(changes) - mostChanges; {
	case len(changes) == 0:
		return "only the form of the lines"
	case more > 0:
		changes = append(changes[:mostChanges], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(changes, "; ")
}

// leavesOf returns the values of a line that are texts, each with its path as key.
func leavesOf(line string) []field {
	fields, _ := parseLine(line)
	return appendLeaves(nil, "", fields)
}

func appendLeaves(all []field, path string, v any) []field {
	switch v := v.(type) {
	case []field:
		for _, f := range v {
			all = appendLeaves(all, strings.TrimPrefix(path+"."+f.key, "."), f.value)
		}
	case []any:
		for i, e := range v {
			all = appendLeaves(all, fmt.Sprintf("%s[%d]", path, i), e)
		}
	default:
		all = append(all, field{path, v})
	}
	return all
}
