package tokenizer_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/modelfile"
	"troupe/modelfile/tokenizer"
)

// vocab is a vocabulary for rules that no shipped tokenizer has. The expected ids come from the
// reference implementation.
const vocab = `"model":{"type":"BPE","unk_token":"?","fuse_unk":true,"vocab":{"?":0,"▁":1,"a":2,"b":3,"▁a":4,"ab":5,` +
	`"1":6,"é":7},"merges":["▁ a",["a","b"]]}`

func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		parts, text string
		want        []uint32
	}{
		"unknown characters are one": {`{`, "ax\u00fcyb", []uint32{2, 0, 3}},
		"metaspace before every text": {
			`{"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},`, "a ab",
			[]uint32{4, 4, 3},
		},
		"metaspace nowhere": {
			`{"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"never"},`, "a a", []uint32{2, 4},
		},
		"metaspace before the first piece": {
			`{"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},` + added(``), "a<x>a",
			[]uint32{4, 9, 2},
		},
		"metaspace not after a token": {
			`{"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},` + added(``), "<x>a",
			[]uint32{9, 2},
		},
		"digits one by one": {
			`{"pre_tokenizer":{"type":"Digits","individual_digits":true},`, "a11b", []uint32{2, 6, 6, 3},
		},
		"an added token": {`{` + added(``), "a <x> b", []uint32{2, 0, 9, 0, 3}},
		"an added token with blanks": {
			`{` + added(`,"lstrip":true,"rstrip":true`), "a <x>\u3000b", []uint32{2, 9, 3},
		},
		"an added token within a word": {`{` + added(`,"single_word":true`), "a<x>", []uint32{2, 0}},
		"an added token that is alone": {`{` + added(`,"single_word":true`), "a <x>", []uint32{2, 0, 9}},
		"an added token of normalized text": {
			`{"normalizer":{"type":"Replace","pattern":{"String":"y"},"content":"x"},` + added(`,"normalized":true`),
			"a<y>", []uint32{2, 9},
		},
		"an added token of the text as it is": {
			`{"normalizer":{"type":"Replace","pattern":{"String":"y"},"content":"x"},` + added(``), "a<y>",
			[]uint32{2, 0},
		},
		"NFC": {`{"normalizer":{"type":"NFC"},`, "e\u0301", []uint32{7}},
		"before and after": {
			`{"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"B"}},` +
				`{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"E"}}],"special_tokens":{"B":{"ids":[3]},` +
				`"E":{"ids":[6,5]}}},`, "a", []uint32{
				3, 2, 6, 5,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tok := parse(t, tc.parts+vocab+"}")
			if got := tok.Encode(tc.text, true); !slices.Equal(got, tc.want) {
				t.Errorf("%q: got %v, want %v", tc.text, got, tc.want)
			}
		})
	}
}

// TestIgnoreMerges: a text that is itself a token is not merged, but a text of several words is.
func TestIgnoreMerges(t *testing.T) {
	tok := parse(t, `{"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":false},
		"model":{"type":"BPE","ignore_merges":true,"vocab":{"▁":1,"a":2,"b":3,"ab":4},"merges":[]}}`)
	for text, want := range map[string][]uint32{"ab": {4}, "ab ab": {2, 3, 1, 2, 3}} {
		if got := tok.Encode(text, true); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func added(more string) string {
	return `"added_tokens":[{"id":9,"content":"<x>"` + more + `}],`
}

func TestDecoders(t *testing.T) {
	const bytes = `"model":{"type":"BPE","vocab":{"▁":0,"▁a":1,"<0xC3>":2,"<0xA9>":3,"b":4,"▁▁":5},"merges":[]}}`
	const llama = `{"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" ` +
		`"},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1}]},` + bytes
	const metaspace = `{"decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},` + bytes
	for _, tc := range []struct {
		name, file string
		ids        []uint32
		want       string
	}{
		{"one space is cut", llama, []uint32{1, 1}, "a a"},
		{"one space is cut, not two", llama, []uint32{5, 4}, " b"},
		{"a character of two bytes", llama, []uint32{4, 2, 3, 1}, "bé a"},
		{"half a character", llama, []uint32{2, 1, 3}, "\uFFFD a\uFFFD"},
		{"spaces of the first token", metaspace, []uint32{5, 1, 5}, " a  "},
	} {
		if got := parse(t, tc.file).Decode(tc.ids, true); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	byteLevel := parse(
		t,
		`{"decoder":{"type":"ByteLevel"},"added_tokens":[{"id":2,"content":"é"}],"model":{"type":"BPE",`+
			`"vocab":{"Ã©":0,"Ġ日":1},"merges":[]}}`,
	)
	if got, want := byteLevel.Decode([]uint32{0, 1, 2}, true), "éĠ日é"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s := parse(t, llama).NewStream(true).Continue()
	if got := s.Push(1); got != " a" {
		t.Errorf("a continued text starts with %q", got)
	}
}

func TestRejectsUnknownSettings(t *testing.T) {
	const model = `"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`
	for name, tc := range map[string]struct{ text, want string }{
		"not JSON":           {`{`, "JSON"},
		"unigram":            {`{"model":{"type":"Unigram","vocab":{}}}`, "model.type"},
		"no vocabulary":      {`{"model":{"type":"BPE"}}`, "vocabulary is empty"},
		"unknown normalizer": {`{"normalizer":{"type":"Lowercase"},` + model, "normalizer"},
		"replacement of nothing": {
			`{"normalizer":{"type":"Replace","pattern":{"String":""},"content":"b"},` + model, "empty",
		},
		"unknown pre-tokenizer": {`{"pre_tokenizer":{"type":"BertPreTokenizer"},` + model, "type of pre_tokenizer"},
		"unknown pattern": {
			`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"x"},"behavior":"Isolated"},` + model,
			"pattern of pre_tokenizer",
		},
		"a split after bytes": {
			`{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Digits"}]},` + model,
			"after ByteLevel",
		},
		"unknown post-processor": {`{"post_processor":{"type":"BertProcessing"},` + model, "post_processor"},
		"special token without id": {
			`{"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"B"}}]},` + model,
			"special token",
		},
		"special token beyond": {
			`{"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"B"}}],` +
				`"special_tokens":{"B":{"ids":[7]}}},` + model, "7",
		},
		"unknown decoder": {`{"decoder":{"type":"CTC"},` + model, "type of decoder"},
		"strip of nothing": {
			`{"decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":"",` +
				`"start":4611686018427387904}]},` + model, "Strip",
		},
		"empty added token":    {`{"added_tokens":[{"id":1,"content":""}],` + model, "empty"},
		"added token far away": {`{"added_tokens":[{"id":4194304,"content":"x"}],` + model, "4194304"},
		"merge of no token":    {`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`, "merge"},
		"two tokens of one id": {`{"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}}`, "same id"},
		"negative id":          {`{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}`, "-1"},
		"huge id":              {`{"model":{"type":"BPE","vocab":{"a":2000000000},"merges":[]}}`, "2000000000"},
		"unk that is not there": {
			`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"u"}}`, "unk_token",
		},
	} {
		path := filepath.Join(t.TempDir(), "tokenizer.json")
		if err := os.WriteFile(path, []byte(tc.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := tokenizer.Load(modelfile.Roots{}, filepath.Dir(path))
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), tc.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line that starts with the file and contains %s", name, err, tc.want)
		}
	}
	if _, err := tokenizer.Load(modelfile.Roots{}, t.TempDir()); err == nil {
		t.Error("a folder without tokenizer.json is accepted")
	}
}

// TestRejectsExplodingTexts: 40 doublings would turn one byte into a terabyte.
func TestRejectsExplodingTexts(t *testing.T) {
	double := strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, 40)
	text := `{"normalizer":{"type":"Sequence","normalizers":[` + strings.TrimSuffix(double, ",") + `]},` + vocab + "}"
	if _, err := tokenizer.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Errorf("got %v", err)
	}
}
