package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"troupe/gateway"
	"troupe/messages"
	"troupe/testkit"
)

var update = flag.Bool("update", false, "write what is sent to testdata/wire")

const (
	finishStop   = messages.FinishReason_FINISH_REASON_STOP
	finishLength = messages.FinishReason_FINISH_REASON_LENGTH
)

// generateBySeed returns a session that generates texts[seed]. Seeds are slightly staggered, so
// that the tokens have a fixed order.
func generateBySeed(texts ...string) sessionFunc {
	return func(ctx context.Context, call *gateway.Call) {
		i := int(call.Sequence.GetSampling().GetSeed())
		sleepOrEnd(ctx, time.Duration(i)*tokenInterval/10)
		generate(texts[i], finishStop)(ctx, call)
	}
}

// TestResponsesMatchGolden compares complete responses with testdata/wire.
func TestResponsesMatchGolden(t *testing.T) {
	const chatOf = `"messages":[{"role":"user","content":"Who made the light?"}]`
	for name, tc := range map[string]struct {
		path, body string
		act        sessionFunc
	}{
		"completion": {"/v1/completions", `{"prompt":"In the beginning"}`, generateBySeed(" God created the heaven.")},
		"completion_stream": {"/v1/completions",
			`{"prompt":"In the beginning","stream":true,"stream_options":{"include_usage":true}}`,
			generateBySeed(" God created \"ü\".")},
		"completion_logprobs": {"/v1/completions", `{"prompt":"In the beginning","logprobs":2}`,
			generateBySeed(" God – and\n")},
		"completion_echo_n": {"/v1/completions",
			`{"prompt":"In the","echo":true,"n":2,"stream":true}`, generateBySeed(" one", " two")},
		"completion_batch": {"/v1/completions", `{"prompt":["In the",[76,113]]}`, generateBySeed(" same")},
		"chat":             {"/v1/chat/completions", `{` + chatOf + `}`, generateBySeed("God did.")},
		"chat_stream": {"/v1/chat/completions",
			`{` + chatOf + `,"stream":true,"stream_options":{"include_usage":true}}`,
			generateBySeed("God did.")},
		"chat_logprobs": {"/v1/chat/completions", `{` + chatOf + `,"logprobs":true,"top_logprobs":2}`,
			generateBySeed(" God –")},
		"chat_logprobs_n": {"/v1/chat/completions", `{` + chatOf + `,"logprobs":true,"n":2,"stream":true}`,
			generateBySeed("a", "b")},
		"chat_stop": {"/v1/chat/completions", `{` + chatOf + `,"stop":["light"]}`,
			generateBySeed("God made the light.")},
		"chat_echo":        {"/v1/chat/completions", `{` + chatOf + `,"echo":true}`, generateBySeed("God did.")},
		"models":           {"/v1/models", "", nil},
		"model":            {"/v1/models/kjv", "", nil},
		"error":            {"/v1/completions", `{"prompt":"a","temperature":3}`, nil},
		"error_model":      {"/v1/chat/completions", `{"model":"gpt-5",` + chatOf + `}`, nil},
		"error_embeddings": {"/v1/embeddings", `{"input":"a"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestGateway(t, tc.act)
				rec, body := (*httptest.ResponseRecorder)(nil), tc.body
				if body == "" {
					rec = w.get(tc.path)
				} else {
					body = strings.Replace(body, "{", `{"model":"kjv","seed":0,`, 1)
					rec = w.post(tc.path, body)
				}
				got := fmt.Sprintf("# %s %s\n%d %s\n\n%s", tc.path, body, rec.Code,
					rec.Header().Get("Content-Type"), normalizeBody(rec.Body.String()))
				compareGolden(t, filepath.Join("testdata", "wire", name+".txt"), got)
				for _, text := range jsonTexts(rec.Body.Bytes()) {
					if !json.Valid(text) {
						t.Errorf("not JSON: %s", text)
					}
				}
			})
		})
	}
}

var variableFields = regexp.MustCompile(`"id":"((?:chat)?cmpl)-[0-9a-f]{24}"|("created":)\d+`)

// normalizeBody replaces values that differ between runs.
func normalizeBody(s string) string {
	return variableFields.ReplaceAllStringFunc(s, func(m string) string {
		sub := variableFields.FindStringSubmatch(m)
		if sub[1] != "" {
			return `"id":"` + sub[1] + `-ID"`
		}
		return sub[2] + "1"
	})
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; -update rewrites it:\n%s", path, diff)
	}
}

// jsonTexts returns the JSON texts of a body: the body itself, or the data of its events without
// the final [DONE].
func jsonTexts(body []byte) (all [][]byte) {
	if !bytes.HasPrefix(body, []byte("data: ")) {
		return [][]byte{bytes.TrimSpace(body)}
	}
	for event := range bytes.SplitSeq(bytes.TrimSpace(body), []byte("\n\n")) {
		if data := bytes.TrimPrefix(event, []byte("data: ")); string(data) != "[DONE]" {
			all = append(all, data)
		}
	}
	return all
}

// TestResponseFieldsMatchRecording repeats the requests of a recording and checks that the response
// has every field of the recorded one.
func TestResponseFieldsMatchRecording(t *testing.T) {
	for _, name := range []string{"completion", "completion_stream", "chat", "chat_stream", "chat_stop", "models"} {
		recorded, err := os.ReadFile(testkit.Shared(t, "data/wire-openai/"+name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(strings.ReplaceAll(string(recorded), "\r\n", "\n"), "\n\n")
		request := regexp.MustCompile(`^# request: (?:-X POST )?[^/]*(/\S+)(?: -d (.*))?`).FindStringSubmatch(head)
		synctest.Test(t, func(t *testing.T) {
			w := newTestGateway(t, generate(" God said, Let there be Beep light.", finishLength))
			rec := w.get(request[1])
			if request[2] != "" {
				rec = w.post(request[1],
					regexp.MustCompile(`"model":"[^"]*"`).ReplaceAllString(request[2], `"model":"kjv"`))
			}
			want, got := fieldPaths(t, []byte(body)), fieldPaths(t, rec.Body.Bytes())
			for part, pair := range map[string][2][]string{
				"first": {want[0], got[0]}, "middle": {want[len(want)/2], got[len(got)/2]},
				"last": {want[len(want)-1], got[len(got)-1]},
			} {
				for _, field := range pair[0] {
					if !slices.Contains(pair[1], field) && !isExpectedDifference(field, part, len(want) > 1) {
						t.Errorf("%s, %s part: field %s of the recording is missing in %v", name, part, field, pair[1])
					}
				}
			}
			if sent := rec.Header().Get("Content-Type"); !strings.Contains(head, "Content-Type: "+sent+"\n") {
				t.Errorf("%s: Content-Type %s, recorded\n%s", name, sent, head)
			}
		})
	}
}

// isExpectedDifference reports whether the recorded server sends a field that OpenAI does not.
func isExpectedDifference(field, part string, streamed bool) bool {
	switch {
	// The recorded server sends its own name.
	case field == ".system_fingerprint string":
		return true
	// OpenAI sends it in the first chunk only.
	case field == ".choices[].delta.role string":
		return part != "first"
	// The recorded server sends zeros in every chunk; OpenAI sends null except in the last.
	case strings.HasPrefix(field, ".usage"):
		return streamed && part != "last"
	}
	return false
}

// fieldPaths returns the paths and types of all fields, for each JSON text of a body.
func fieldPaths(t *testing.T, body []byte) (all [][]string) {
	t.Helper()
	for _, text := range jsonTexts(body) {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		all = append(all, appendFieldPaths(nil, "", v))
	}
	return all
}

func appendFieldPaths(to []string, path string, v any) []string {
	switch v := v.(type) {
	case map[string]any:
		to = append(to, path+" object")
		for key, field := range v {
			to = appendFieldPaths(to, path+"."+key, field)
		}
		return to
	case []any:
		for _, item := range v {
			to = appendFieldPaths(to, path+"[]", item)
		}
		return append(to, path+" list")
	case nil:
		return append(to, path+" null")
	case string:
		return append(to, path+" string")
	case float64:
		return append(to, path+" number")
	}
	return append(to, fmt.Sprintf("%s %T", path, v))
}
