package tokenizer

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxShrink is the factor by which NFC and NFKC may shorten a text. The largest measured factor is
// four: a mathematical letter has four bytes and becomes one. Twice that leaves room for newer
// Unicode tables.
const maxShrink = 8

// LeastTokens returns a lower bound of the number of tokens of a text without encoding it: its
// bytes divided by those of the longest text that can become one token. It is 0 if a text of any
// length can become few tokens.
func (t *Tokenizer) LeastTokens(text string) int {
	if t.longest == 0 {
		return 0
	}
	n := len(text)
	if t.strips { // an added token can include any number of blanks
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
		return // characters are dropped, or any number of them become one token
	}
	t.longest = utf8.UTFMax // for an unknown character
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

// complete reports whether every character yields tokens of its own.
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
