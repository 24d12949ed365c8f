package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Stream decodes tokens one by one. It holds back bytes that may be the start of a character.
type Stream struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	begun       bool // a token with text was pushed
	strip       int  // how many may still be cut from the start
	held        []byte
}

// NewStream returns a stream at the start of a text.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{tokenizer: t, skipSpecial: skipSpecial, strip: t.decoder.stripMost}
}

// Continue makes the stream one that goes on after other text: nothing is cut from its start.
func (s *Stream) Continue() *Stream {
	s.begun, s.strip = true, 0
	return s
}

// Push returns the text that a token makes certain.
func (s *Stream) Push(id uint32) string {
	if s.skipSpecial && s.tokenizer.Special(id) {
		return ""
	}
	s.held = append(s.held, s.tokenizer.bytes(id, !s.begun)...)
	s.begun = true
	return s.take(false)
}

// Flush returns what was held back, as U+FFFD: no more comes.
func (s *Stream) Flush() string { return s.take(true) }

// take returns the text of the bytes held, all or but for a character's start at their end. As Unicode advises, the
// longest start of a character that is not completed is one U+FFFD.
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

// broken is the length of the longest start of a character that begins bytes which are none.
func broken(b []byte) int {
	for n := min(len(b), utf8.UTFMax-1); n > 1; n-- {
		if !utf8.FullRune(b[:n]) {
			return n
		}
	}
	return 1
}

// stripped cuts what the decoder strips from the start of a text.
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
