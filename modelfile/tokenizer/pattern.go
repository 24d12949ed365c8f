package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The pre-tokenization patterns of supported models. Go's regexp has no look-ahead, so each has a
// hand-written scanner.
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	// patternQwen2 is patternLlama3 with one digit instead of up to three.
	patternQwen2 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
)

// nextGPT2 returns the length of the first match of patternGPT2 in a non-empty text. It is never 0.
func nextGPT2(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	for _, class := range []func(rune) bool{unicode.IsLetter, unicode.IsNumber, isOther} {
		if n := run(s[at:], class, len(s)); n > 0 {
			return at + n
		}
	}
	return blanks(s)
}

// nextLlama3 returns the length of the first match of patternLlama3, with at most the given number
// of digits. It is never 0.
func nextLlama3(s string, digits int) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	if n := run(s, unicode.IsLetter, len(s)); n > 0 {
		return n
	}
	r, size := utf8.DecodeRuneInString(s)
	if !isNewline(r) && !unicode.IsNumber(r) {
		if n := run(s[size:], unicode.IsLetter, len(s)); n > 0 {
			return size + n
		}
	}
	if n := run(s, unicode.IsNumber, digits); n > 0 {
		return n
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	if n := run(s[at:], isOther, len(s)); n > 0 {
		at += n
		return at + run(s[at:], isNewline, len(s))
	}
	blank := s[:run(s, unicode.IsSpace, len(s))]
	if n := strings.LastIndexAny(blank, "\r\n"); n >= 0 {
		return n + 1
	}
	return blanks(s)
}

// isOther is also true for invalid bytes, which are decoded as U+FFFD.
func isOther(r rune) bool   { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }
func isNewline(r rune) bool { return r == '\r' || r == '\n' }

// run returns the length of the longest prefix of at most n characters of a class.
func run(s string, class func(rune) bool, n int) int {
	at := 0
	for at < len(s) && n > 0 {
		r, size := utf8.DecodeRuneInString(s[at:])
		if !class(r) {
			break
		}
		at += size
		n--
	}
	return at
}

// blanks matches \s+(?!\S)|\s+ at the start of a text: all blanks but the last, which belongs to
// the following word.
func blanks(s string) int {
	n := run(s, unicode.IsSpace, len(s))
	_, last := utf8.DecodeLastRuneInString(s[:n])
	if n == len(s) || n == last {
		return n
	}
	return n - last
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the start of s.
func contraction(s string, anyCase bool) int {
	if s[0] != '\'' {
		return 0
	}
	if anyCase && strings.HasPrefix(s, "'ſ") { // its upper case is S, so case folding includes it
		return len("'ſ")
	}
	for _, c := range []string{"s", "t", "re", "ve", "m", "ll", "d"} {
		if len(s) > len(c) && (s[1:1+len(c)] == c || anyCase && strings.EqualFold(s[1:1+len(c)], c)) {
			return 1 + len(c)
		}
	}
	return 0
}
