package openai

import "encoding/json"

// Limits of a request that are checked before decoding, since a decoded element uses many times the
// memory of its text.
const (
	maxMessages   = 1 << 14
	maxParts      = 1 << 14 // of a message's content
	maxModelBytes = 512
	maxErrorBytes = 4 << 10
)

// countElements returns the number of elements of a list, or members of an object, in valid JSON.
// It returns 0 for other values.
func countElements(raw json.RawMessage) int {
	n, depth, text := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text:
			switch c {
			case '\\':
				i++
			case '"':
				text = false
			}
			continue
		case c == '{' || c == '[':
			if depth++; depth == 1 {
				continue
			}
		case c == '}' || c == ']':
			depth--
			continue
		case c == ',' && depth == 1:
			n++
			continue
		case c == '"':
			text = true
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			continue
		}
		if depth > 0 && n == 0 {
			n = 1
		}
	}
	return n
}

// countValues returns an upper estimate of the number of values in valid JSON, at any depth.
func countValues(raw json.RawMessage) int {
	n, text := 1, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case !text && (c == '[' || c == '{' || c == ',' || c == ':'):
			n++
		}
	}
	return n
}

// clipText truncates a text that becomes part of an error, since clients may have sent it.
func clipText(text string) string {
	if len(text) <= maxErrorBytes {
		return text
	}
	cut := maxErrorBytes
	for cut > 0 && text[cut]&0xc0 == 0x80 { // inside a character
		cut--
	}
	return text[:cut] + "…"
}
