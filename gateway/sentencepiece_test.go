package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"troupe/gateway"
	"troupe/messages"
	"troupe/testkit/reference"
)

// sentencePiece is a tokenizer like that of Llama 2. It prepends a space, which is removed at the
// start of a text, and <s>.
const sentencePiece = `{
	"added_tokens":[{"id":1,"content":"<s>","special":true},{"id":2,"content":"</s>","special":true}],
	"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
		{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
	"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],
		"special_tokens":{"<s>":{"ids":[1]}}},
	"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
		{"type":"ByteFallback"},{"type":"Fuse"},
		{"type":"Strip","content":" ","start":1,"stop":0}]},
	"model":{"type":"BPE","unk_token":"<unk>",
		"vocab":{"<unk>":0,"<s>":1,"</s>":2,"▁":3,"a":4,"▁a":5,"b":6},"merges":["▁ a"]}}`

// newSentencePieceGateway returns a gateway that also serves a model named plain, with that
// tokenizer and a chat template.
func newSentencePieceGateway(t *testing.T, template string, act sessionFunc) *testGateway {
	t.Helper()
	dir := reference.Random(t, reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 16,
		Heads: 2, KVHeads: 1}, 1)
	for name, content := range map[string]string{"tokenizer.json": sentencePiece,
		"tokenizer_config.json": `{"bos_token":"<s>"}`, "chat_template.jinja": template} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := newTestGateway(t, act)
	w.directory.add(&messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{Name: "plain", Path: dir,
			Priority: messages.Priority_PRIORITY_STANDARD.Enum(), BlockTokens: new(uint32(16))},
		State: messages.DeploymentState_DEPLOYMENT_STATE_READY, Revision: 1,
	})
	return w
}

// TestLeadingSpaceOfOutput checks that the output loses the space before its first word only if it
// begins the text, that is after an empty prompt.
func TestLeadingSpaceOfOutput(t *testing.T) {
	for prompt, want := range map[string]string{`""`: "a a", `[1]`: "a a", `"a"`: " a a", `[1,4]`: " a a"} {
		synctest.Test(t, func(t *testing.T) {
			w := newSentencePieceGateway(t, "{{ messages[0].content }}", func(_ context.Context, call *gateway.Call) {
				deliver(call, 5, 5)
				call.Deliver(nil, nil, 0, finishStop)
			})
			got := readResponses(t, w.post("/v1/completions", `{"model":"plain","prompt":`+prompt+`}`))[0]
			if len(got.Choices) != 1 || got.Choices[0].Text != want || got.Usage.Completion != 3 {
				t.Errorf("prompt %s: %+v, want %q with 3 tokens, including the end token", prompt, got, want)
			}
		})
	}
}

// TestUsageWithoutEndToken checks that a sequence that ends by its limit or a stop string counts no
// end token.
func TestUsageWithoutEndToken(t *testing.T) {
	for name, body := range map[string]string{"limit": `{"model":"plain","prompt":"a","max_tokens":2}`,
		"stop string": `{"model":"plain","prompt":"a","stop":"a a"}`} {
		synctest.Test(t, func(t *testing.T) {
			w := newSentencePieceGateway(t, "", func(_ context.Context, call *gateway.Call) {
				deliver(call, 5, 5)
				call.Deliver(nil, nil, 0, finishLength)
			})
			if got := readResponses(t, w.post("/v1/completions", body))[0]; got.Usage.Completion != 2 {
				t.Errorf("%s: %+v", name, got.Usage)
			}
		})
	}
}

// TestChatAddsNoSpecialTokens checks that a chat has only the special tokens of its template.
func TestChatAddsNoSpecialTokens(t *testing.T) {
	for template, want := range map[string][]uint32{
		"{{ messages[0].content }}":                {5, 6},
		"{{ bos_token }}{{ messages[0].content }}": {1, 5, 6},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newSentencePieceGateway(t, template,
				func(_ context.Context, call *gateway.Call) { call.Deliver(nil, nil, 0, finishStop) })
			w.post("/v1/chat/completions", `{"model":"plain","messages":[{"role":"user","content":"ab"}]}`)
			if opened, _ := w.sessions(); len(opened) != 1 || !slices.Equal(opened[0].Sequence.GetPrompt(), want) {
				t.Errorf("%s: %v, want %v", template, opened, want)
			}
		})
	}
}
