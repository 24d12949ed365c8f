package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxToolValues bounds the JSON values in the tool calls of a message, including their arguments.
const maxToolValues = 1 << 14

var errToolCalls = errors.New("tool_calls must be a list of objects with a function")

// decodeToolCalls decodes the tool calls of an assistant's turn. Arguments that are JSON in a
// string are replaced by their value, as chat templates expect. It returns nil for an empty list.
func decodeToolCalls(raw json.RawMessage) (json.RawMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	n := countValues(raw)
	if n > maxToolValues {
		return nil, fmt.Errorf("tool_calls has %d values; at most %d are allowed", n, maxToolValues)
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

// functionMember returns a memberFunc for tool calls, which decodes the function's arguments. n
// counts JSON values.
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
		return nil, fmt.Errorf("tool_calls has too many values; at most %d are allowed", maxToolValues)
	}
	return json.RawMessage(text), nil
}

// memberFunc computes the new value of a member of an object.
type memberFunc func(name string, value json.RawMessage) (json.RawMessage, error)

// mapMembers replaces the value of every member of an object. It preserves their order.
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
