package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder says how tokens become bytes.
type decoder struct {
	byteLevel    bool
	byteFallback bool
	replace      [][2]string // in tokens
	strip        string      // at most stripMost of it are cut from the start of a text
	stripMost    int
}

func (t *Tokenizer) readDecoder(f *file) error {
	for _, p := range f.Decoder.list() {
		switch {
		case p.Type == "ByteLevel":
			t.decodeWith.byteLevel = true
		case p.Type == "ByteFallback":
			t.decodeWith.byteFallback = true
		case p.Type == "Fuse":
		case p.Type == "Replace" && p.Pattern.String != nil:
			t.decodeWith.replace = append(t.decodeWith.replace, [2]string{*p.Pattern.String, p.Content})
		case p.Type == "Metaspace":
			t.decodeWith.replace = append(t.decodeWith.replace, [2]string{metaspace, " "})
			if p.PrependScheme != "never" {
				t.decodeWith.strip, t.decodeWith.stripMost = " ", 1
			}
		case p.Type == "Strip" && p.Stop == 0:
			t.decodeWith.strip, t.decodeWith.stripMost = p.Content, p.Start
		default:
			return fmt.Errorf("decoder %q is not supported; ByteLevel, ByteFallback, Fuse, Replace, Metaspace and Strip at the start are", p.Type)
		}
	}
	return nil
}

// Bytes returns what a token stands for; nothing for an id that is not in the vocabulary.
func (t *Tokenizer) Bytes(id uint32) []byte {
	if int(id) >= len(t.tokens) {
		return nil
	}
	token := t.tokens[id]
	if _, ok := t.addedByID[id]; ok {
		return []byte(token)
	}
	d := t.decodeWith
	if d.byteLevel {
		return textToBytes(token)
	}
	if d.byteFallback && len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			return []byte{byte(b)}
		}
	}
	for _, r := range d.replace {
		token = strings.ReplaceAll(token, r[0], r[1])
	}
	return []byte(token)
}

// Decode returns the text of tokens. With skipSpecial, special tokens have none.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) string {
	s := t.NewStream(skipSpecial)
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(s.Push(id))
	}
	b.WriteString(s.Flush())
	return b.String()
}

// Stream decodes tokens one by one. It holds back bytes that may be the start of a character.
type Stream struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	stripped    int // of what is cut from the start
	begun       bool
	held        []byte
}

// NewStream returns a stream at the start of a text.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{tokenizer: t, skipSpecial: skipSpecial}
}

// Continue makes the stream one that goes on after other text: nothing is cut from its start.
func (s *Stream) Continue() *Stream {
	s.begun = true
	return s
}

// Push returns the text that a token makes certain.
func (s *Stream) Push(id uint32) string {
	if a, ok := s.tokenizer.addedByID[id]; ok && a.special && s.skipSpecial {
		return ""
	}
	s.held = append(s.held, s.tokenizer.Bytes(id)...)
	s.strip()
	n := 0
	for n < len(s.held) && utf8.FullRune(s.held[n:]) {
		_, size := utf8.DecodeRune(s.held[n:])
		n += size
	}
	return s.take(n)
}

// Flush returns what was held back, as U+FFFD.
func (s *Stream) Flush() string { return s.take(len(s.held)) }

func (s *Stream) strip() {
	d := s.tokenizer.decodeWith
	for !s.begun && s.stripped < d.stripMost && strings.HasPrefix(string(s.held), d.strip) {
		s.held = s.held[len(d.strip):]
		s.stripped++
	}
	if len(s.held) > 0 {
		s.begun = true
	}
}

// take returns the first n bytes held, each that is no text as U+FFFD.
func (s *Stream) take(n int) string {
	var b strings.Builder
	for rest := s.held[:n]; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		b.WriteRune(r)
		rest = rest[size:]
	}
	s.held = append(s.held[:0], s.held[n:]...)
	return b.String()
}

// GPT-2's alphabet: each byte is a printable character.
var (
	byteToRune [256]rune
	runeToByte = make(map[rune]byte, 256)
)

func init() {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= 0xa1 && r <= 0xac || r >= 0xae && r <= 0xff) {
			r = next
			next++
		}
		byteToRune[b] = r
		runeToByte[r] = byte(b)
	}
}

func bytesToText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(byteToRune[s[i]])
	}
	return b.String()
}

func textToBytes(s string) []byte {
	var out []byte
	for _, r := range s {
		if b, ok := runeToByte[r]; ok {
			out = append(out, b)
		} else {
			out = append(out, string(r)...)
		}
	}
	return out
}
