package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go/micro"

	"troupe/gateway"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/tokenizer"
	"troupe/testkit"
)

// natsRequest is a request over NATS that records its responses.
type natsRequest struct {
	subject string
	data    []byte
	answers [][]byte
	done    chan struct{}
}

func (r *natsRequest) Subject() string        { return r.subject }
func (r *natsRequest) Reply() string          { return "_INBOX.test" }
func (r *natsRequest) Headers() micro.Headers { return nil }
func (r *natsRequest) Data() []byte           { return r.data }
func (r *natsRequest) Account() string        { return "" }

func (r *natsRequest) Respond(data []byte, opts ...micro.RespondOpt) error {
	if len(data) == 0 {
		close(r.done)
		return nil
	}
	r.answers = append(r.answers, data)
	return nil
}

// outcome is the status of a request and the parameter that was refused, if any.
type outcome struct {
	status int
	param  string
}

// endpoints send a request with additional fields.
var endpoints = map[string]func(w *testGateway, fields string) outcome{
	"completions": func(w *testGateway, fields string) outcome {
		return httpOutcome(w, "/v1/completions", `{"model":"plain","prompt":"a",`+fields+`}`)
	},
	"chat": func(w *testGateway, fields string) outcome {
		return httpOutcome(w, "/v1/chat/completions",
			`{"model":"plain","messages":[{"role":"user","content":"a"}],`+fields+`}`)
	},
	"infer": func(w *testGateway, fields string) outcome { return natsOutcome(w, `{"prompt":"a",`+fields+`}`) },
	"infer chat": func(w *testGateway, fields string) outcome {
		return natsOutcome(w, `{"messages":[{"role":"user","content":"a"}],`+fields+`}`)
	},
}

func httpOutcome(w *testGateway, path, body string) outcome {
	rec := w.post(path, body)
	var answer struct{ Error struct{ Param string } }
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
		w.t.Errorf("%s: %v", rec.Body, err)
	}
	return outcome{rec.Code, answer.Error.Param}
}

func natsOutcome(w *testGateway, body string) outcome {
	r := &natsRequest{subject: "troupe.v1.infer.plain", data: []byte(body), done: make(chan struct{})}
	w.Infer(r)
	<-r.done
	var answer struct{ Reason, Error, Param string }
	if err := json.Unmarshal(r.answers[0], &answer); err != nil {
		w.t.Errorf("%s: %v", r.answers[0], err)
	}
	if answer.Reason == "" {
		return outcome{status: http.StatusOK}
	}
	return outcome{http.StatusBadRequest, answer.Param}
}

// TestParametersAcceptedOrRefused checks that a parameter that would change the response is either
// supported or refused by its name, at every endpoint. Default values are accepted.
func TestParametersAcceptedOrRefused(t *testing.T) {
	for _, p := range []struct {
		name              string
		accepted, refused string // JSON values, separated by spaces
	}{
		{name: "add_special_tokens", accepted: "null true false"},
		{name: "skip_special_tokens", accepted: "null true false"},
		{name: "spaces_between_special_tokens", accepted: "null true", refused: "false"},
		{name: "truncate_prompt_tokens", accepted: "null 1 7 -1", refused: "0 -2 99999"},
		{name: "allowed_token_ids", accepted: "null [1,2]", refused: `[] [-1] [99999] "a" [1.5]`},
		{name: "bad_words", accepted: "null []", refused: `["a"] "a"`},
		{name: "guided_json", accepted: "null", refused: `{} "{}"`},
		{name: "guided_regex", accepted: "null", refused: `"a+"`},
		{name: "guided_choice", accepted: "null", refused: `["a"]`},
		{name: "guided_grammar", accepted: "null", refused: `"root::=a"`},
		{name: "guided_json_object", accepted: "null false", refused: "true"},
		{name: "guided_decoding_backend", accepted: "null", refused: `"outlines"`},
		{name: "guided_whitespace_pattern", accepted: "null", refused: `"x"`},
		{name: "structured_outputs", accepted: "null", refused: `{"regex":"a"}`},
		{name: "use_beam_search", accepted: "null false", refused: "true 1"},
		{name: "length_penalty", accepted: "null 1 1.0", refused: "2"},
		{name: "early_stopping", accepted: "null false", refused: "true"},
		{name: "prompt_logprobs", accepted: "null", refused: "0 1"},
		{name: "prompt_embeds", accepted: "null", refused: `"AAAA"`},
		{name: "logits_processors", accepted: "null []", refused: `["x"]`},
		{name: "return_tokens_as_token_ids", accepted: "null false", refused: "true"},
		{name: "return_token_ids", accepted: "null false", refused: "true"},
		{name: "tools", accepted: "null []", refused: `[{"type":"function"}]`},
		{name: "functions", accepted: "null []", refused: `[{"name":"f"}]`},
		{name: "function_call", accepted: `null "none" "auto"`, refused: `{"name":"f"}`},
		{name: "tool_choice", accepted: `null "none" "auto"`, refused: `"required" {"type":"function"}`},
		{name: "documents", accepted: "null []", refused: `[{"text":"a"}]`},
		{name: "modalities", accepted: `null ["text"]`, refused: `["text","audio"] ["audio"]`},
		{name: "reasoning_effort", accepted: "null", refused: `"high"`},
		{name: "chat_template", accepted: "null", refused: `"{{x}}"`},
		{name: "chat_template_kwargs", accepted: `null {} {"x":1}`, refused: `[] 1`},
		{name: "continue_final_message", accepted: "null false", refused: `1 "a"`},
		{name: "add_generation_prompt", accepted: "null true", refused: `1 "a"`},
	} {
		for endpoint, ask := range endpoints {
			accepted, refused := p.accepted, p.refused
			if !strings.Contains(endpoint, "chat") {
				// Prompts use no template.
				accepted = strings.ReplaceAll(accepted, ` {"x":1}`, "")
			}
			t.Run(endpoint+" "+p.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newSentencePieceGateway(t, "{% for m in messages %}{{ m.content }}{% endfor %}",
						generate("", finishStop))
					for value := range strings.FieldsSeq(accepted) {
						if got := ask(w, fmt.Sprintf(`"%s":%s`, p.name, value)); got != (outcome{status: 200}) {
							t.Errorf("%s: %s of %s: %+v", endpoint, p.name, value, got)
						}
					}
					for value := range strings.FieldsSeq(refused) {
						if got := ask(w, fmt.Sprintf(`"%s":%s`, p.name, value)); got != (outcome{400, p.name}) {
							t.Errorf("%s: %s of %s is accepted: %+v", endpoint, p.name, value, got)
						}
					}
				})
			})
		}
	}
}

// sessionPrompt sends a request and returns the prompt tokens that reached the session.
func sessionPrompt(t *testing.T, template, path, body string) (prompt []uint32, answer string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSentencePieceGateway(t, template,
			func(_ context.Context, call *gateway.Call) { call.Deliver(nil, nil, 0, finishStop) })
		answer = w.post(path, body).Body.String()
		if opened, _ := w.sessions(); len(opened) == 1 {
			prompt = opened[0].Sequence.GetPrompt()
		}
	})
	return prompt, answer
}

// TestSpecialTokensAndTruncation checks which tokens are added to a prompt, and which are cut from
// its start.
func TestSpecialTokensAndTruncation(t *testing.T) {
	for fields, want := range map[string][]uint32{
		`"prompt":"ab"`: {1, 5, 6},
		`"prompt":"ab","add_special_tokens":true`:                             {1, 5, 6},
		`"prompt":"ab","add_special_tokens":false`:                            {5, 6},
		`"prompt":"ab","truncate_prompt_tokens":9`:                            {1, 5, 6},
		`"prompt":"ab","truncate_prompt_tokens":2`:                            {1, 6},
		`"prompt":"ab","truncate_prompt_tokens":1`:                            {6},
		`"prompt":"ab","truncate_prompt_tokens":1,"add_special_tokens":false`: {6},
		`"prompt":[1,4,5,6],"truncate_prompt_tokens":2`:                       {5, 6},
		`"prompt":[1,4,5,6],"truncate_prompt_tokens":-1`:                      {1, 4, 5, 6},
	} {
		got, answer := sessionPrompt(t, "", "/v1/completions", `{"model":"plain",`+fields+`}`)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v: %s", fields, got, want, answer)
		}
	}
	long := "[" + strings.Repeat("4,", 5000) + "5,6]"
	got, answer := sessionPrompt(t, "", "/v1/completions",
		`{"model":"plain","truncate_prompt_tokens":2,"prompt":`+long+`}`)
	if !slices.Equal(got, []uint32{5, 6}) {
		t.Errorf("a prompt longer than the context: %v, %s", got, answer)
	}
	got, answer = sessionPrompt(t, "", "/v1/completions",
		`{"model":"plain","truncate_prompt_tokens":-1,"max_tokens":5,"prompt":`+long+`}`)
	if len(got) == 0 || !slices.Equal(got[len(got)-2:], []uint32{5, 6}) {
		t.Errorf("truncated to the context: %d tokens, %s", len(got), answer)
	}
}

// TestChatTemplateParameters checks the variables of the template and the tokens of the rendered
// text.
func TestChatTemplateParameters(t *testing.T) {
	const (
		template = "{% for m in messages %}{{ m.content }};{% endfor %}{% if add_generation_prompt %}b{% endif %}" +
			"{% if enable_thinking is defined and enable_thinking %}aa{% endif %}"
		a    = `"messages":[{"role":"user","content":"a"}]`
		open = `"messages":[{"role":"user","content":"b"},{"role":"assistant","content":"ab "}]`
	)
	ids := func(text string) []uint32 { // without <s>
		return sentencePieceTokenizer(t).Encode(text, false)
	}
	for fields, want := range map[string][]uint32{
		a:                                    ids("a;b"),
		a + `,"add_generation_prompt":false`: ids("a;"),
		a + `,"add_special_tokens":true`:     append([]uint32{1}, ids("a;b")...),
		a + `,"chat_template_kwargs":{"enable_thinking":true}`:                ids("a;baa"),
		a + `,"chat_template_kwargs":{"enable_thinking":false}`:               ids("a;b"),
		a + `,"truncate_prompt_tokens":1`:                                     {6},
		open + `,"add_generation_prompt":false,"continue_final_message":true`: ids("b;ab "),
	} {
		got, answer := sessionPrompt(t, template, "/v1/chat/completions", `{"model":"plain",`+fields+`}`)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v: %s", fields, got, want, answer)
		}
	}
	for param, bodies := range map[string][]string{
		"continue_final_message": {open + `,"continue_final_message":true`,
			`"messages":[{"role":"user","content":""}],"add_generation_prompt":false,"continue_final_message":true`},
		"chat_template_kwargs": {a + `,"chat_template_kwargs":{"messages":[]}`,
			a + `,"chat_template_kwargs":{"tools":[]}`,
			a + `,"chat_template_kwargs":{"bos_token":"x"}`, a + `,"chat_template_kwargs":{"chat_template":"x"}`,
			a + `,"chat_template_kwargs":{"x":` + listOfOnes(1<<15) + `}`},
		"echo": {a + `,"echo":true`},
	} {
		for _, body := range bodies {
			_, answer := sessionPrompt(t, template, "/v1/chat/completions", `{"model":"plain",`+body+`}`)
			if !strings.Contains(answer, `"param":"`+param+`"`) {
				t.Errorf("%.80s: %.200s", body, answer)
			}
		}
	}
}

func listOfOnes(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }

// TestHistoryReachesTemplate checks that the template receives tool calls with decoded arguments,
// tool call IDs, null content, and the reasoning of earlier turns.
func TestHistoryReachesTemplate(t *testing.T) {
	const template = "{% for m in messages %}[{{ m.role }}" +
		"{% if m.content is none %} none{% else %} {{ m.content }}{% endif %}" +
		"{% for c in m.tool_calls %} {{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }} " +
		"{{ c.function.arguments.x is defined }}{% endfor %}" +
		"{% if m.tool_call_id is defined %} for {{ m.tool_call_id }}{% endif %}" +
		"{% if m.reasoning_content %} {{ m.reasoning_content }}{% endif %}" +
		"{% if m.name %} {{ m.name }}{% endif %}]{% endfor %}"
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(dir, os.DirFS(testkit.Model())),
		os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o644)); err != nil {
		t.Fatal(err)
	}
	for history, want := range map[string]string{
		`{"role":"user","content":"a","name":"eve"}`: "[user a eve]",
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
			"function":{"name":"f","arguments":"{\"x\": 1}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"b"}`: `[assistant none c1 f {"x": 1} True][tool b for c1]`,
		`{"role":"assistant","tool_calls":[{"id":"c1",` +
			`"function":{"name":"f","arguments":""}}]}`: `[assistant none c1 f {} False]`,
		`{"role":"assistant","tool_calls":[{"id":"c1",` +
			`"function":{"name":"f","arguments":{"x":2}}}]}`: `[assistant none c1 f {"x": 2} True]`,
		`{"role":"assistant","content":"b","reasoning_content":"a","tool_calls":[]}`: "[assistant b a]",
		`{"role":"user"}`:                "[user ]",
		`{"role":"user","content":null}`: "[user none]",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestGateway(t,
				func(_ context.Context, call *gateway.Call) { call.Deliver(nil, nil, 0, finishStop) })
			w.directory.add(&messages.DeploymentStatus{
				Spec: &messages.DeploymentSpec{Name: "templated", Path: dir}, Revision: 1})
			answer := w.post("/v1/chat/completions", `{"model":"templated","messages":[`+history+`]}`).Body
			if opened, _ := w.sessions(); len(opened) != 1 ||
				testTokenizer().Decode(opened[0].Sequence.GetPrompt(), false) != want {
				t.Errorf("%s: %v, want the tokens of %q: %s", history, opened, want, answer)
			}
		})
	}
	for _, message := range []string{
		`{"role":"assistant","tool_calls":7}`, `{"role":"assistant","tool_calls":[7]}`,
		`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}`,
		`{"role":"assistant","tool_calls":[` +
			strings.TrimSuffix(strings.Repeat(`{"function":{}},`, 1<<15), ",") + `]}`,
		`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"x":` + listOfOnes(1<<15) + `}}}]}`,
		`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`,
		`{"role":"tool","tool_call_id":7,"content":"a"}`,
	} {
		_, answer := sessionPrompt(t, template, "/v1/chat/completions", `{"model":"plain","messages":[`+message+`]}`)
		if !strings.Contains(answer, `"param":"messages[0]"`) {
			t.Errorf("%.120s: %.200s", message, answer)
		}
	}
}

// TestSkipSpecialTokens checks that the output includes special tokens if skip_special_tokens is
// false.
func TestSkipSpecialTokens(t *testing.T) {
	for fields, want := range map[string]string{
		`"prompt":"a"`: " a a", `"prompt":"a","skip_special_tokens":true`: " a a",
		`"prompt":"a","skip_special_tokens":false`:               " a</s> a",
		`"prompt":[1],"skip_special_tokens":false`:               " a</s> a",
		`"prompt":[1,5],"skip_special_tokens":false,"echo":true`: "<s> a a</s> a",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newSentencePieceGateway(t, "", func(_ context.Context, call *gateway.Call) {
				deliver(call, 5, 2, 5)
				call.Deliver(nil, nil, 0, finishLength)
			})
			got := readResponses(t, w.post("/v1/completions", `{"model":"plain",`+fields+`}`))[0]
			if len(got.Choices) != 1 || got.Choices[0].Text != want {
				t.Errorf("%s: %+v, want %q", fields, got, want)
			}
		})
	}
}

// TestAllowedTokensReachSequence checks that allowed_token_ids reach the sequence.
func TestAllowedTokensReachSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSentencePieceGateway(t, "", generate("", finishStop))
		w.post("/v1/completions", `{"model":"plain","prompt":"a","allowed_token_ids":[6,4]}`)
		opened, _ := w.sessions()
		if got := opened[0].Sequence.GetSampling().GetAllowedTokenIds(); !slices.Equal(got, []uint32{6, 4}) {
			t.Errorf("%v", got)
		}
	})
}

// sentencePieceTokenizer returns the tokenizer of the model plain.
func sentencePieceTokenizer(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(sentencePiece), 0o644); err != nil {
		t.Fatal(err)
	}
	read, err := tokenizer.Load(modelfile.Roots{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	return read
}
