package tokenizer

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxShrink is how many times shorter NFC and NFKC may make a text. A letter of mathematics has
// four bytes and becomes one, and nothing becomes less than a fourth; this is twice that, for
// tables newer than the ones that were measured.
const maxShrink = 8

// LeastTokens returns a lower bound of the number of tokens of a text, without encoding it: its
// bytes, divided by those of the longest text that can become one token. It is 0 where a text of
// any length can become a few tokens.
func (t *Tokenizer) LeastTokens(text string) int {
	if t.longest == 0 {
		return 0
	}
	n := len(text)
	if t.strips { // any number of blanks can belong to an added token
		n = 0
		for _, r := range text {
			if !unicode.IsSpace(r) {
				n += utf8.RuneLen(r)
			}
		}
	}
	return (n + t.longest - 1) / t.longest
}

// measure finds the longest text that can become one token.
func (t *Tokenizer) measure() {
	if m := &t.model; !m.complete() && (!m.hasUnk || m.fuseUnk) {
		return // characters vanish, or any number of them become one token
	}
	t.longest = utf8.UTFMax // of an unknown character
	for id, token := range t.tokens {
		n := len(token)
		if t.model.byteLevel && t.addedByID[uint32(id)] == nil {
			n = len(textToBytes(token))
		}
		t.longest = max(t.longest, n)
	}
	t.longest *= t.shrink
	for _, a := range t.addedByID {
		t.strips = t.strips || a.lstrip || a.rstrip
	}
}

// complete reports whether every character becomes tokens of its own.
func (m *bpe) complete() bool {
	all := m.byteLevel
	for _, id := range m.byteIDs {
		all = all && id != noID
	}
	if all || !m.byteFallback {
		return all
	}
	for b := range 256 {
		if _, ok := m.ids[fmt.Sprintf("<0x%02X>", b)]; !ok {
			return false
		}
	}
	return true
}
