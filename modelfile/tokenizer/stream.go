package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Stream decodes tokens one by one. It holds back bytes that may be an incomplete character.
type Stream struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	begun       bool // a token with text has been pushed
	strip       int  // number of characters that may still be cut from the start
	held        []byte
}

// NewStream returns a stream at the start of a text.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{tokenizer: t, skipSpecial: skipSpecial, strip: t.decoder.stripMost}
}

// Continue marks the stream as the continuation of other text, so that nothing is cut from its
// start.
func (s *Stream) Continue() *Stream {
	s.begun, s.strip = true, 0
	return s
}

// Push adds a token and returns the text that is now complete.
func (s *Stream) Push(id uint32) string {
	if s.skipSpecial && s.tokenizer.Special(id) {
		return ""
	}
	s.held = append(s.held, s.tokenizer.bytes(id, !s.begun)...)
	s.begun = true
	return s.take(false)
}

// Flush returns the bytes held back, as U+FFFD, at the end of the text.
func (s *Stream) Flush() string { return s.take(true) }

// take returns the text of the held bytes, with or without an incomplete character at the end. As
// Unicode recommends, the longest incomplete character becomes one U+FFFD.
func (s *Stream) take(all bool) string {
	var b strings.Builder
	rest := s.held
	for len(rest) > 0 && (all || utf8.FullRune(rest)) {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			size = broken(rest)
		}
		b.WriteRune(r)
		rest = rest[size:]
	}
	s.held = append(s.held[:0], rest...)
	return s.stripped(b.String())
}

// broken returns the length of the longest incomplete character at the start of invalid bytes.
func broken(b []byte) int {
	for n := min(len(b), utf8.UTFMax-1); n > 1; n-- {
		if !utf8.FullRune(b[:n]) {
			return n
		}
	}
	return 1
}

// stripped cuts the decoder's strip characters from the start of a text.
func (s *Stream) stripped(text string) string {
	for s.strip > 0 && text != "" {
		rest, found := strings.CutPrefix(text, s.tokenizer.decoder.strip)
		if !found {
			s.strip = 0
			break
		}
		text = rest
		s.strip--
	}
	return text
}
