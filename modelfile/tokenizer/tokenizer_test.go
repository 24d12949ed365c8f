package tokenizer_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"pgregory.net/rapid"

	"troupe/modelfile"
	"troupe/modelfile/tokenizer"
	"troupe/testkit"
)

func load(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(modelfile.Roots{}, path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func parse(t testing.TB, text string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Parse([]byte(text))
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
		{
			name: "stories", model: "data/models/stories260K-hf",
			golden: "data/models/stories260K-hf/tokenizer_golden.jsonl", shared: true, literal: true,
		},
		{name: "gpt2", model: "data/tokenizers/gpt2", golden: "data/tokenizers/gpt2/golden.jsonl", shared: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.shared {
				tc.model, tc.golden = testkit.Shared(t, tc.model), testkit.Shared(t, tc.golden)
			}
			tok := load(t, tc.model)
			for _, g := range testkit.JSONLines[goldenTokens](t, tc.golden) {
				got := tok.Encode(g.Text, false)
				if tc.literal { // this reference starts each text with bos and treats special tokens as text
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

func TestByteLevelRoundTrip(t *testing.T) {
	tok := load(t, testkit.Model())
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`[a-z ,.'0-9\n\t ]{0,40}`),
			rapid.SampledFrom([]string{"<|pad|>", "<|", "\xff", "\xe4\xb8", " \r\n"}),
		)).Draw(t, "text"), "")
		var got []byte
		for _, id := range tok.Encode(text, false) {
			got = append(got, tok.Bytes(id)...)
		}
		if string(got) != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	})
}

// TestStreamReplacesInvalidBytes compares a Stream with a decoder that sees all bytes at once.
func TestStreamReplacesInvalidBytes(t *testing.T) {
	tok := load(t, testkit.Model())
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.Uint32Range(0, 262)).Draw(t, "ids") // ids 3 to 258 are single bytes
		var whole []byte
		var streamed strings.Builder
		s := tok.NewStream(false)
		for _, id := range ids {
			whole = append(whole, tok.Bytes(id)...)
			piece := s.Push(id)
			if !utf8.ValidString(piece) {
				t.Fatalf("piece %q is not valid UTF-8", piece)
			}
			streamed.WriteString(piece)
		}
		streamed.WriteString(s.Flush())
		want, err := unicode.UTF8.NewDecoder().Bytes(whole)
		if err != nil {
			t.Fatal(err)
		}
		if streamed.String() != string(want) || tok.Decode(ids, false) != string(want) {
			t.Fatalf("streamed %q, decoded %q, want %q", streamed.String(), tok.Decode(ids, false), want)
		}
	})
}

func TestStreamHoldsBackIncompleteCharacters(t *testing.T) {
	tok := load(t, testkit.Model())
	s := tok.NewStream(true)
	var got []string
	for _, id := range tok.Encode("é𝄞a", false) {
		got = append(got, s.Push(id))
	}
	if want := []string{"", "é", "", "", "", "𝄞", "a"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	s.Push(tok.Encode("é", false)[0])
	if got := s.Flush(); got != "\uFFFD" {
		t.Fatalf("half a character is flushed as %q", got)
	}
}

func TestSpecialTokens(t *testing.T) {
	tok := load(t, testkit.Model())
	bos, ok := tok.ID("<|begin_of_text|>")
	if !ok || !tok.Special(bos) || tok.Special(bos+100) {
		t.Fatalf("bos is %d, %v", bos, ok)
	}
	ids := tok.Encode("a<|begin_of_text|>b", true)
	if want := []uint32{0, 100, 0, 101}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	if got := tok.Decode(ids, true); got != "ab" {
		t.Errorf("without special tokens: %q", got)
	}
	if got := tok.Decode(ids, false); got != "<|begin_of_text|>a<|begin_of_text|>b" {
		t.Errorf("with special tokens: %q", got)
	}
	if ids := tok.EncodeLiteral("<|pad|>", false); slices.Contains(ids, 2) || tok.Decode(ids, true) != "<|pad|>" {
		t.Errorf("a special token in a literal text is %v", ids)
	}
}

func TestFits(t *testing.T) {
	tok := load(t, testkit.Model())
	if err := tok.Fits(tok.Vocab()); err != nil {
		t.Error(err)
	}
	if err := tok.Fits(tok.Vocab() - 1); err == nil {
		t.Error("a model with fewer tokens is accepted")
	}
	if got := tok.Bytes(1 << 31); got != nil {
		t.Errorf("an id beyond the vocabulary is %q", got)
	}
}
