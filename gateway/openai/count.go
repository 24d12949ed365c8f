package openai

import "encoding/json"

// Limits of what a request may have, beyond which it is not decoded: an element takes many times
// the memory of its text.
const (
	maxMessages   = 1 << 14
	maxParts      = 1 << 14 // of a message's content
	maxModelBytes = 512
	maxErrorBytes = 4 << 10
)

// countElements returns how many countElements a list has, or members an object, in JSON that is valid. It is
// 0 for anything else.
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

// values returns about how many values valid JSON has, at any depth; never fewer.
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

// clip cuts a text that is part of an error: clients may have sent it.
func clipText(text string) string {
	if len(text) <= maxErrorBytes {
		return text
	}
	cut := maxErrorBytes
	for cut > 0 && text[cut]&0xc0 == 0x80 { // within a character
		cut--
	}
	return text[:cut] + "…"
}
