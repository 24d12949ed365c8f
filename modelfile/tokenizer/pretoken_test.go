package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPreTokenizers(t *testing.T) {
	const text = "I'Me he'ſ  x-9 12345²\r\n\n  (a) \t\n don't!!\n\n 日本 e\u0301 ab_c  "
	gpt2 := []string{
		"I",
		"'",
		"Me",
		" he",
		"'",
		"ſ",
		" ",
		" x",
		"-",
		"9",
		" 12345²",
		"\r\n\n ",
		" (",
		"a",
		")",
		" \t\n",
		" don",
		"'t",
		"!!",
		"\n\n",
		" 日本",
		" e",
		"\u0301",
		" ab",
		"_",
		"c",
		"  ",
	}
	llama3 := []string{
		"I",
		"'M",
		"e",
		" he",
		"'ſ",
		" ",
		" x",
		"-",
		"9",
		" ",
		"123",
		"45²",
		"\r\n\n",
		" ",
		" (",
		"a",
		")",
		" \t\n",
		" don",
		"'t",
		"!!\n\n",
		" 日本",
		" e",
		"\u0301",
		" ab",
		"_c",
		"  ",
	}
	qwen2 := []string{
		"I",
		"'M",
		"e",
		" he",
		"'ſ",
		" ",
		" x",
		"-",
		"9",
		" ",
		"1",
		"2",
		"3",
		"4",
		"5",
		"²",
		"\r\n\n",
		" ",
		" (",
		"a",
		")",
		" \t\n",
		" don",
		"'t",
		"!!\n\n",
		" 日本",
		" e",
		"\u0301",
		" ab",
		"_c",
		"  ",
	}
	split := func(pattern string) string {
		return fmt.Sprintf(
			`{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":%q},"behavior":"Isolated"},`+
				`{"type":"ByteLevel","use_regex":false}]}`,
			pattern,
		)
	}
	for name, tc := range map[string]struct {
		file string
		text string
		want []string
	}{
		"GPT-2":            {`{"type":"ByteLevel"}`, text, gpt2},
		"GPT-2 as a split": {split(patternGPT2), text, gpt2},
		"Llama 3":          {split(patternLlama3), text, llama3},
		"Qwen2":            {split(patternQwen2), text, qwen2},
		"a space before":   {`{"type":"ByteLevel","add_prefix_space":true}`, "a b", []string{" a", " b"}},
		"a space is there": {`{"type":"ByteLevel","add_prefix_space":true}`, " a", []string{" a"}},
		"numbers":          {`{"type":"Digits"}`, "a12b3", []string{"a", "12", "b", "3"}},
		"digits": {
			`{"type":"Digits","individual_digits":true}`, "a12b3", []string{"a", "1", "2", "b", "3"},
		},
		"metaspaces":           {`{"type":"Metaspace","replacement":"▁"}`, "a  b", []string{"▁a", "▁", "▁b"}},
		"metaspaces, no split": {`{"type":"Metaspace","replacement":"▁","split":false}`, "a  b", []string{"▁a▁▁b"}},
		"words":                {`null`, "▁a▁▁b▁", []string{"▁a", "▁▁b", "▁"}},
	} {
		file := fmt.Sprintf(`{"pre_tokenizer":%s,"model":{"type":"BPE","vocab":{"▁":0,"a":1},"merges":[]}}`, tc.file)
		if strings.Contains(
			name,
			"no split",
		) { // add a token that continues after a word, so that a text is merged as a whole
			file = strings.Replace(file, `"a":1`, `"a▁":1`, 1)
		}
		tok, err := Parse([]byte(file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		tok.split(tc.text, true, func(word string) bool { got = append(got, word); return true })
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, tc.want)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	tok, err := Parse(
		[]byte(
			`{"pre_tokenizer":{"type":"Digits"},"model":{"type":"BPE","unk_token":"?","vocab":{"?":0},"merges":[]}}`,
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * cacheWords {
		tok.Encode(fmt.Sprint(i), true)
	}
	tok.Encode(strings.Repeat("1", cacheBytes+1), true)
	if n := len(tok.model.cache); n == 0 || n > cacheWords {
		t.Errorf("%d words are cached, limit %d", n, cacheWords)
	}
	for word := range tok.model.cache {
		if len(word) > cacheBytes {
			t.Errorf("a word of %d bytes is cached", len(word))
		}
	}
}
