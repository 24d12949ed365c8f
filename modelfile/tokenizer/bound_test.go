package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"troupe/modelfile"
	"troupe/testkit"
)

// TestLeastTokens: the bound is close for the longest tokens, holds with normalizers, and is 0
// where none exists.
func TestLeastTokens(t *testing.T) {
	const bpe = `"model":{"type":"BPE","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"aa":3,"aaaaaaaa":4},"merges":["a ` +
		`a"]}`
	const fused = `"model":{"type":"BPE","unk_token":"?","fuse_unk":true,"vocab":{"?":0,"a":1},"merges":[]}`
	const dropped = `"model":{"type":"BPE","vocab":{"a":1},"merges":[]}`
	stripping := `"added_tokens":[{"id":9,"content":"<m>","lstrip":true}],`
	normalizer := func(text string) string { return `"normalizer":` + text + `,` }
	for name, tc := range map[string]struct {
		file, text string
		want       int
	}{
		"the longest token":  {bpe, strings.Repeat("a", 800), 100},
		"unknown characters": {bpe, strings.Repeat("é", 400), 100},
		"NFC":                {normalizer(`{"type":"NFC"}`) + bpe, strings.Repeat("a", 800), 13},
		"a replacement that cuts": {
			normalizer(`{"type":"Replace","pattern":{"String":"bbbb"},"content":"b"}`) + bpe, strings.Repeat("a", 800),
			25,
		},
		"a replacement by nothing": {
			normalizer(`{"type":"Replace","pattern":{"String":"b"},"content":""}`) + bpe, strings.Repeat("a", 800), 0,
		},
		"blanks beside a token": {stripping + bpe, strings.Repeat(" ", 1000) + "aaaaaaaa", 1},
		"unknown runs":          {fused, strings.Repeat("é", 400), 0},
		"unknown, dropped":      {dropped, strings.Repeat("é", 400), 0},
		"no text":               {bpe, "", 0},
	} {
		tok, err := Parse([]byte("{" + tc.file + "}"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := tok.LeastTokens(tc.text); got != tc.want {
			t.Errorf("%s: at least %d tokens, want %d", name, got, tc.want)
		}
		if n := len(tok.Encode(tc.text, false)); n < tok.LeastTokens(tc.text) {
			t.Errorf("%s: %d tokens, fewer than %d", name, n, tok.LeastTokens(tc.text))
		}
	}
}

// TestMaxShrink measures how much NFKC, and so NFC, shortens the longest spelling of every
// character.
func TestMaxShrink(t *testing.T) {
	longest := map[rune]int{} // a character -> bytes of the longest one that becomes it
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if parts := []rune(norm.NFKD.String(string(r))); utf8.ValidRune(r) && len(parts) == 1 {
			longest[parts[0]] = max(longest[parts[0]], utf8.RuneLen(r))
		}
	}
	worst := 0.0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		spelled := 0
		for _, part := range norm.NFKD.String(string(r)) {
			spelled += longest[part]
		}
		worst = max(worst, float64(spelled)/float64(len(norm.NFKC.String(string(r)))))
	}
	if worst < 2 || worst > maxShrink/2 {
		t.Errorf("a text becomes %.1f times shorter; maxShrink is %d, want at least twice that", worst, maxShrink)
	}
}

// TestEncodeContext: an encoding stops when its context ends, within a word, between words and
// between added tokens.
func TestEncodeContext(t *testing.T) {
	tok, err := Load(modelfile.Roots{}, testkit.Model())
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, text := range map[string]string{
		"one word": strings.Repeat("ab", 1<<16), "words": strings.Repeat("a b ", 1<<14),
		"added tokens": strings.Repeat("<|pad|>", 1<<14),
	} {
		if ids, err := tok.EncodeContext(gone, text, true); !errors.Is(err, context.Canceled) || ids != nil {
			t.Errorf("%s: %d ids, %v; want context.Canceled", name, len(ids), err)
		}
		ids, err := tok.EncodeContext(t.Context(), text, true)
		if err != nil || fmt.Sprint(ids) != fmt.Sprint(tok.Encode(text, true)) {
			t.Errorf("%s: %d ids, %v; want those of Encode", name, len(ids), err)
		}
	}
}
