package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder describes how tokens become text.
type decoder struct {
	byteLevel    bool
	byteFallback bool
	replace      []func(string) string // applied to each token
	metaspace    bool                  // drop ▁ in the first token of a text instead of replacing it by a space
	strip        string                // cut from the start of a text, at most stripMost times
	stripMost    int
}

func (t *Tokenizer) readDecoder(f *file) error {
	d, growth, fused := &t.decoder, 1, false
	for _, p := range f.Decoder.list() {
		switch {
		case p.Type == "ByteLevel":
			d.byteLevel = true
		case p.Type == "ByteFallback":
			d.byteFallback = true
		case p.Type == "Fuse":
			fused = true
		case p.Type == "Replace" && p.Pattern.String != nil:
			replace, err := p.replacer(&growth)
			if err != nil {
				return fmt.Errorf("decoder Replace: %w", err)
			}
			d.replace = append(d.replace, replace)
		case p.Type == "Metaspace":
			always, first := p.prepends()
			d.metaspace = always || first
			d.replace = append(d.replace, func(s string) string { return strings.ReplaceAll(s, metaspace, " ") })
		case p.Type == "Strip":
			if !fused || p.Stop != 0 || utf8.RuneCountInString(p.Content) != 1 {
				return errors.New(
					"decoder Strip is supported only for one character at the start of a text, after Fuse",
				)
			}
			d.strip, d.stripMost = p.Content, p.Start
		default:
			return errors.New(
				"unsupported type of decoder; supported: ByteLevel, ByteFallback, Fuse, Replace, Metaspace and Strip",
			)
		}
	}
	return nil
}

// Bytes returns the bytes of a token, or nil for an id that is not in the vocabulary.
func (t *Tokenizer) Bytes(id uint32) []byte { return t.bytes(id, false) }

// bytes is Bytes; first is set for the first token of a text.
func (t *Tokenizer) bytes(id uint32, first bool) []byte {
	if int64(id) >= int64(len(t.tokens)) {
		return nil
	}
	token, d := t.tokens[id], &t.decoder
	if t.addedByID[id] != nil {
		return []byte(token)
	}
	if d.byteLevel {
		return textToBytes(token)
	}
	if d.byteFallback && len(token) == len("<0x00>") && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			return []byte{byte(b)}
		}
	}
	if d.metaspace && first {
		token = strings.ReplaceAll(token, metaspace, "")
	}
	for _, f := range d.replace {
		token = f(token)
	}
	return []byte(token)
}

// Decode returns the text of tokens. With skipSpecial, special tokens are left out.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) string {
	s := t.NewStream(skipSpecial)
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(s.Push(id))
	}
	b.WriteString(s.Flush())
	return b.String()
}
