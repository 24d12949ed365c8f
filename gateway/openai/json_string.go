package openai

import "unicode/utf8"

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	for len(s) > 0 {
		n := 0
		for n < len(s) && s[n] >= ' ' && s[n] != '"' && s[n] != '\\' && s[n] < utf8.RuneSelf {
			n++
		}
		if b, s = append(b, s[:n]...), s[n:]; len(s) == 0 {
			break
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r < ' ':
			const hex = "0123456789abcdef"
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default: // includes U+2028 and U+2029, which JSON allows
			b = utf8.AppendRune(b, r)
		}
		s = s[size:]
	}
	return append(b, '"')
}
