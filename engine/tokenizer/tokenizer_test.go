package tokenizer_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/engine/tokenizer"
	"troupe/testkit"
)

func load(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

type goldenTokens struct {
	Text    string   `json:"text"`
	IDs     []uint32 `json:"ids"`
	Decoded string   `json:"decoded"`
}

func TestGoldens(t *testing.T) {
	for _, tc := range []struct {
		name, model, golden string
		shared, literal     bool
	}{
		{name: "kjv", model: testkit.Model(), golden: filepath.Join(testkit.Model(), "golden_tokens.jsonl")},
		{name: "stories", model: "data/models/stories260K-hf", golden: "data/models/stories260K-hf/tokenizer_golden.jsonl", shared: true, literal: true},
		{name: "gpt2", model: "data/tokenizers/gpt2", golden: "data/tokenizers/gpt2/golden.jsonl", shared: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.shared {
				tc.model, tc.golden = testkit.Shared(t, tc.model), testkit.Shared(t, tc.golden)
			}
			tok := load(t, tc.model)
			for _, g := range testkit.JSONLines[goldenTokens](t, tc.golden) {
				got := tok.Encode(g.Text, false)
				if tc.literal { // this reference begins each text with bos, and takes special tokens as text
					got = tok.EncodeLiteral(g.Text, true)
				}
				if !slices.Equal(got, g.IDs) {
					t.Errorf("%q: got %v, want %v", g.Text, got, g.IDs)
				}
				if want := g.Decoded; want != "" && tok.Decode(g.IDs, tc.literal) != want {
					t.Errorf("%v: decoded %q, want %q", g.IDs, tok.Decode(g.IDs, tc.literal), want)
				}
			}
		})
	}
}

// TestRoundTrip: byte-level tokens give back any text, and the stream gives what Decode gives.
func TestRoundTrip(t *testing.T) {
	tok := load(t, testkit.Model())
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z ,.'0-9\n\t ]{0,40}`)).Draw(t, "text")
		if got := tok.Decode(tok.Encode(text, false), true); got != text && !strings.Contains(text, "<|") {
			t.Fatalf("got %q, want %q", got, text)
		}
	})
}

func TestStreamHoldsBackHalfCharacters(t *testing.T) {
	tok := load(t, testkit.Model())
	ids := tok.Encode("é𝄞", false)
	s := tok.NewStream(true)
	var got []string
	for _, id := range ids {
		if piece := s.Push(id); piece != "" {
			got = append(got, piece)
		}
	}
	if strings.Join(got, "") != "é𝄞" || s.Flush() != "" {
		t.Fatalf("got %q", got)
	}
	s.Push(ids[0])
	if got := s.Flush(); len(ids) > 2 && got != "\uFFFD" {
		t.Fatalf("half a character is flushed as %q", got)
	}
}

func TestStopperAgainstWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab]{0,20}`).Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,4}`), 0, 3).Draw(t, "stops")
		want, found := text, false
		for _, stop := range stops {
			if i := strings.Index(want, stop); i >= 0 {
				want, found = want[:i], true
			}
		}
		s := tokenizer.NewStopper(stops)
		var got strings.Builder
		stopped := false
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			piece, stop := s.Push(rest[:n])
			got.WriteString(piece)
			rest = rest[n:]
			stopped = stopped || stop
		}
		got.WriteString(s.Flush())
		// Cutting at one stop can uncover no other, but an earlier one may end later: the first to begin wins.
		if stopped != found || !strings.HasPrefix(text, got.String()) || got.Len() > len(want) && !found {
			t.Fatalf("text %q, stops %q: got %q stopped %v, want %q %v", text, stops, got.String(), stopped, want, found)
		}
		for _, stop := range stops {
			if strings.Contains(got.String(), stop) {
				t.Fatalf("text %q: %q contains the stop %q", text, got.String(), stop)
			}
		}
	})
}

func TestRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":              `{`,
		"unigram":               `{"model":{"type":"Unigram","vocab":{}}}`,
		"unknown normalizer":    `{"normalizer":{"type":"Lowercase"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"unknown pattern":       `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"x"},"behavior":"Isolated"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"merge of no token":     `{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`,
		"negative id":           `{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}`,
		"huge id":               `{"model":{"type":"BPE","vocab":{"a":2000000000},"merges":[]}}`,
		"unknown decoder":       `{"decoder":{"type":"CTC"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"unk that is not there": `{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"u"}}`,
	} {
		if _, err := tokenizer.Parse([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"}}`))
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"<0x61>":1},"merges":[["a","a"]],"byte_fallback":true},"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if tok, err := tokenizer.Parse(b); err == nil {
			tok.Decode(tok.Encode("In the beginning, aab.\n\n  é", true), true)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := load(b, testkit.Model())
	text := strings.Repeat("In the beginning God created the heaven and the earth. ", 200)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text, true)
	}
}
