package openai

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"troupe/messages"
)

func TestDecode(t *testing.T) {
	r, err := Decode([]byte(`{"model":"m","prompt":["a",[1,2]],"n":2,"max_tokens":7,"temperature":0,"top_p":0.5,
		"top_k":-1,"seed":-1,"stop":"x","logprobs":2,"logit_bias":{"5":-100},"priority":"batch","timeout":1.5,
		"stream":true,"stream_options":{"include_usage":true},"user":"ignored"}`), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Prompts) != 2 || r.Prompts[0].Text != "a" || r.Prompts[1].Count() != 2 || r.N != 2 || r.MaxTokens != 7 ||
		r.Sampling.GetTemperature() != 0 || r.Sampling.GetTopP() != 0.5 ||
		r.Sampling.GetTopK() != 0 || *r.Seed != 1<<64-1 || r.Stop[0] != "x" ||
		!r.Sampling.GetLogprobs() || r.Sampling.GetTopLogprobs() != 2 || r.Sampling.GetLogitBias()[5] != -100 ||
		r.Priority != messages.PriorityClass_PRIORITY_CLASS_BATCH || r.Timeout != 1500*time.Millisecond ||
		!r.Stream || !r.IncludeUsage {
		t.Errorf("%+v", r)
	}
	chat, err := Decode([]byte(`{"model":"m","messages":[{"role":"user",
		"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],
		"logprobs":true,"top_logprobs":3}`), true)
	if err != nil || chat.Messages[0].Content != "ab" || chat.MaxTokens != 0 || chat.Sampling.GetTemperature() != 1 ||
		chat.Sampling.GetTopLogprobs() != 3 {
		t.Errorf("%+v, %v", chat, err)
	}
}

// TestDecodeTokenPrompt checks which JSON values are lists of tokens.
func TestDecodeTokenPrompt(t *testing.T) {
	for text, want := range map[string][]uint32{
		`[1]`: {1}, "[ 1 ,\n2,\t4294967295 ]": {1, 2, 4294967295}, `[0,0]`: {0, 0},
		`[]`: nil, `[ ]`: nil, `[4294967296]`: nil, `[1.5]`: nil,
		`[1,"2"]`: nil, `[[1]]`: nil, `[-1]`: nil, `{"a":1}`: nil, `1`: nil, `[1,null]`: nil,
	} {
		p, ok := decodePrompt([]byte(text))
		if p.ReadTokens(); ok != (want != nil) || !slices.Equal(p.Tokens, want) || p.Count() != len(want) && ok {
			t.Errorf("%s: %v, %v", text, p.Tokens, ok)
		}
	}
}

// TestDecodeErrorNamesField checks that an error names the invalid field.
func TestDecodeErrorNamesField(t *testing.T) {
	for param, bodies := range map[string][]string{
		"n":                  {`"n":0`, `"n":-1`, `"n":129`},
		"max_tokens":         {`"max_tokens":0`, `"max_tokens":99999999999`},
		"min_tokens":         {`"min_tokens":-1`, `"min_tokens":17`},
		"temperature":        {`"temperature":-0.1`, `"temperature":2.1`, `"temperature":1e300`},
		"top_p":              {`"top_p":1.1`},
		"top_k":              {`"top_k":-2`},
		"min_p":              {`"min_p":-1`},
		"presence_penalty":   {`"presence_penalty":3`},
		"frequency_penalty":  {`"frequency_penalty":-3`},
		"repetition_penalty": {`"repetition_penalty":0`},
		"logit_bias":         {`"logit_bias":{"a":1}`, `"logit_bias":{"1":101}`, `"logit_bias":{"-1":1}`},
		"stop":               {`"stop":5`, `"stop":[1]`},
		"logprobs":           {`"logprobs":-1`, `"logprobs":21`, `"logprobs":true`},
		"stream_options":     {`"stream_options":{}`},
		"priority":           {`"priority":"high"`, `"priority":"unspecified"`},
		"timeout":            {`"timeout":0`, `"timeout":-1`, `"timeout":1e9`},
		"cache_salt":         {`"cache_salt":""`, `"cache_salt":7`, `"cache_salt":["a"]`},
		"best_of":            {`"best_of":3`},
		"echo":               {`"echo":true,"logprobs":1`},
		"prompt":             {`"prompt":{}`, `"prompt":[]`, `"prompt":[[]]`, `"prompt":[-1]`, `"prompt":null`},
	} {
		for _, body := range bodies {
			if !strings.Contains(body, `"prompt"`) {
				body += `,"prompt":"a"`
			}
			_, err := Decode([]byte(`{"model":"m",`+body+`}`), false)
			var e *Error
			if !errors.As(err, &e) || e.Param == nil || *e.Param != param || e.Status != 400 {
				t.Errorf("%s: %+v", body, err)
			}
		}
	}
}

// TestAppendString checks that a string decodes to the same text and has no line breaks.
func TestAppendString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching("[\x00-\x1f\"\\\\a/<>&\u2028]{0,20}")).Draw(t, "text")
		var back string
		b := AppendString(nil, text)
		if err := json.Unmarshal(b, &back); err != nil || back != text || strings.ContainsRune(string(b), '\n') {
			t.Fatalf("%q is encoded as %s and decoded as %q, %v", text, b, back, err)
		}
	})
}

// TestResponsesAreValidJSON checks that responses and chunks are valid JSON in OpenAI's form.
func TestResponsesAreValidJSON(t *testing.T) {
	lp := []TokenLogprob{{Token: "a", Bytes: []byte("a"), Logprob: -1, Top: []TokenLogprob{{Token: "b", Logprob: -2}}}}
	for _, chat := range []bool{false, true} {
		a := ResponseEncoder{ID: "cmpl-1", Model: `a"b`, Created: 5, Chat: chat, IncludeUsage: true}
		for name, b := range map[string][]byte{
			"chunk":      a.AppendChunk(nil, Choice{Text: "x\n", First: true}),
			"last chunk": a.AppendChunk(nil, Choice{Finish: "stop", Logprobs: lp}),
			"usage":      a.AppendUsageChunk(nil, Usage{1, 2, 1}),
			"whole": a.AppendResponse(nil,
				[]Choice{{Text: "y", Finish: "length", Logprobs: lp}, {Index: 1}}, Usage{3, 4, 0}),
		} {
			var v struct {
				ID, Object, Model string
				Choices           []struct {
					Index        int
					Text         *string
					Delta        *struct{ Role, Content *string }
					Message      *struct{ Role, Content string }
					FinishReason *string `json:"finish_reason"`
				}
			}
			if err := json.Unmarshal(b, &v); err != nil || v.Model != `a"b` {
				t.Fatalf("%s: %s: %v", name, b, err)
			}
			for _, c := range v.Choices {
				if (c.Text != nil) == chat || chat && (c.Delta != nil) == (name == "whole") {
					t.Errorf("chat %v, %s: %s", chat, name, b)
				}
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"model":"m","prompt":"a","stop":["x"],"logit_bias":{"1":2}}`), false)
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}],"n":2}`), true)
	f.Fuzz(func(t *testing.T, b []byte, chat bool) {
		r, err := Decode(b, chat)
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || !json.Valid(e.JSON()) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if r.N < 1 || r.Model == "" || !utf8.ValidString(r.Model) || r.Timeout <= 0 ||
			len(r.Prompts)*r.N > maxSequences ||
			len(r.Prompts)+len(r.Messages) == 0 {
			t.Fatalf("accepted: %+v", r)
		}
	})
}
