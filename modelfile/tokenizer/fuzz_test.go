package tokenizer_test

import (
	"testing"
	"unicode/utf8"

	"troupe/modelfile/tokenizer"
	"troupe/testkit"
)

func FuzzParse(f *testing.F) {
	f.Add(
		[]byte(
			`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},`+
				`"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"}}`,
		),
		"aab",
	)
	f.Add(
		[]byte(
			`{"model":{"type":"BPE","vocab":{"a":0,"<0x61>":1,"aa":2},"merges":[["a","a"]],"byte_fallback":true},`+
				`"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},null,`+
				`{"type":"NFC"}]}}`,
		),
		"e\u0301\xff",
	)
	f.Add(
		[]byte(
			`{`+added(
				`,"lstrip":true,"rstrip":true,"single_word":true,"normalized":true`,
			)+vocab+`,"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},"decoder":{"type":"Metaspace"}}`,
		),
		" <x> a",
	)
	f.Add(
		[]byte(
			`{`+vocab+`,"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},`+
				`{"type":"Strip","content":"a","start":2}]},"post_processor":{"type":"TemplateProcessing",`+
				`"single":[{"SpecialToken":{"id":"B"}}],"special_tokens":{"B":{"ids":[3]}}}}`,
		),
		"aab",
	)
	f.Add(
		[]byte(`{"model":{"type":"BPE","unk_token":"a","vocab":{"a":0},"merges":[]},"normalizer":{"type":"NFKC"}}`),
		"\U0001d400\u030a ﬁ",
	)
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tok, err := tokenizer.Parse(file)
		if err != nil {
			return
		}
		ids := tok.Encode(text, true)
		if got := tok.Decode(ids, true); !utf8.ValidString(got) {
			t.Errorf("decoded %q, which is not valid UTF-8", got)
		}
		if least := tok.LeastTokens(text); utf8.ValidString(text) && len(tok.Encode(text, false)) < least {
			t.Errorf("%d tokens of %q, fewer than %d", len(tok.Encode(text, false)), text, least)
		}
		for _, id := range ids {
			if int(id) >= tok.Vocab() {
				t.Errorf("id %d of %d", id, tok.Vocab())
			}
		}
	})
}

func FuzzEncode(f *testing.F) {
	tok := load(f, testkit.Model())
	for _, text := range []string{
		"In the beginning", "it's  3\r\n\r\n", "<|pad|>x<|", "\xff\xe4\xb8", "日本語 🙂\u3000\u2028",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := tok.Decode(tok.Encode(text, false), false); utf8.ValidString(text) && got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	})
}
