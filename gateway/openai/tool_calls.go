package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxToolValues is how many JSON values the tool calls of a message may have, arguments included.
const maxToolValues = 1 << 14

var errToolCalls = errors.New("tool_calls must be a list of objects, each with a function")

// decodeToolCalls reads the tool calls of an assistant's turn. As templates expect, arguments that are
// JSON in a string become the value itself. An empty list is none.
func decodeToolCalls(raw json.RawMessage) (json.RawMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	n := countValues(raw)
	if n > maxToolValues {
		return nil, fmt.Errorf("tool_calls has %d values, more than %d; send fewer", n, maxToolValues)
	}
	var calls []json.RawMessage
	if json.Unmarshal(raw, &calls) != nil {
		return nil, errToolCalls
	}
	if len(calls) == 0 {
		return nil, nil
	}
	for i := range calls {
		var err error
		if calls[i], err = mapMembers(calls[i], functionMember(&n)); err != nil {
			return nil, err
		}
	}
	return json.Marshal(calls)
}

// functionMember returns what becomes of a member of a tool call. n counts values.
func functionMember(n *int) memberFunc {
	return func(name string, value json.RawMessage) (json.RawMessage, error) {
		if name != "function" {
			return value, nil
		}
		return mapMembers(value, func(name string, value json.RawMessage) (json.RawMessage, error) {
			if name != "arguments" {
				return value, nil
			}
			return decodeToolArguments(value, n)
		})
	}
}

func decodeToolArguments(value json.RawMessage, n *int) (json.RawMessage, error) {
	var text string
	switch {
	case isNull(value) || equalJSON(value, `""`):
		return json.RawMessage("{}"), nil
	case json.Unmarshal(value, &text) != nil:
		return value, nil
	case !json.Valid([]byte(text)):
		return nil, errors.New("arguments of a tool call must be JSON")
	}
	if *n += countValues(json.RawMessage(text)); *n > maxToolValues {
		return nil, fmt.Errorf("tool_calls has more than %d values; send fewer", maxToolValues)
	}
	return json.RawMessage(text), nil
}

// change returns what becomes of a member of an object.
type memberFunc func(name string, value json.RawMessage) (json.RawMessage, error)

// mapMembers writes an object again, with its mapMembers changed. The order stays.
func mapMembers(raw json.RawMessage, each memberFunc) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errToolCalls
	}
	out := []byte{'{'}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errToolCalls
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil, errToolCalls
		}
		if value, err = each(name.(string), value); err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(AppendString(out, name.(string)), ':')
		out = append(out, value...)
	}
	return append(out, '}'), nil
}
