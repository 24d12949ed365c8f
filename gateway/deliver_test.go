package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/gateway"
)

// response is the part of a response or chunk that tests read, of completions and chats.
type response struct {
	Choices []struct {
		Index        int
		Text         string
		Message      struct{ Content string }
		Delta        struct{ Role, Content string }
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error struct {
		Message, Type string
		Param, Code   *string
	}
}

// readResponses decodes a response or all chunks of a stream.
func readResponses(t testing.TB, rec *httptest.ResponseRecorder) (all []response) {
	t.Helper()
	for _, text := range jsonTexts(rec.Body.Bytes()) {
		var a response
		if err := json.Unmarshal(text, &a); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		all = append(all, a)
	}
	return all
}

// choiceTexts returns the text of each choice, from a response or from chunks.
func choiceTexts(all []response) map[int]string {
	text := map[int]string{}
	for _, a := range all {
		for _, c := range a.Choices {
			text[c.Index] += c.Text + c.Message.Content + c.Delta.Content
		}
	}
	return text
}

// TestTextEndsBeforeStopString checks that the text ends before a stop string however it is split
// into tokens, with and without streaming.
func TestTextEndsBeforeStopString(t *testing.T) {
	const text = " And God said, Let there be light: and there was light."
	for _, tc := range []struct{ stop, want string }{
		{`"light"`, " And God said, Let there be "},
		{`"ght: an"`, " And God said, Let there be li"},
		{`["no such", "there was"]`, " And God said, Let there be light: and "},
		{`["d said", "God"]`, " And "}, // "God" completes first
		{`"d"`, " An"},
		{`["light.x", "lightly"]`, text}, // held back until the end
		{`["light"], "include_stop_str_in_output": true`, " And God said, Let there be light"},
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newTestGateway(t, generate(text, finishLength))
				body := fmt.Sprintf(`{"model":"kjv","prompt":"a","max_tokens":100,"stream":%v,"stop":%s}`,
					stream, tc.stop)
				all := readResponses(t, w.post("/v1/completions", body))
				finish, ends := "stop", 1
				if tc.want == text {
					finish, ends = "length", 0
				}
				last := all[len(all)-1].Choices[0]
				if got := choiceTexts(all)[0]; got != tc.want || last.FinishReason != finish {
					t.Errorf("stop %s, stream %v: %q, finish %q; want %q, %q", tc.stop, stream, got,
						last.FinishReason, tc.want, finish)
				}
				synctest.Wait()
				if _, closed := w.sessions(); closed != ends || w.calls.Open() != 0 {
					t.Errorf("stop %s: %d sessions were closed, %d calls are open", tc.stop, closed,
						w.calls.Open())
				}
			})
		}
	}
}

// TestStopStringClosesSession checks that a choice that reaches a stop string closes its session
// while other choices continue.
func TestStopStringClosesSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan string, 2)
		w := newTestGateway(t, func(ctx context.Context, call *gateway.Call) {
			seed, text := call.Sequence.GetSampling().GetSeed(), strings.Repeat("a", 20)
			if seed == 4 {
				text = "a stop" + strings.Repeat("b", 100)
			}
			generate(text, finishLength)(ctx, call)
			ended <- fmt.Sprintf("%d after %d tokens", seed, len(call.Output()))
		})
		rec := w.post("/v1/completions", `{"model":"kjv","prompt":"a","n":2,"seed":4,"stop":"stop"}`)
		got := choiceTexts(readResponses(t, rec))
		if got[0] != "a " || got[1] != strings.Repeat("a", 20) {
			t.Errorf("%v", got)
		}
		want := fmt.Sprintf("4 after %d tokens", len(testTokenizer().Encode("a stop", false)))
		if first := <-ended; first != want {
			t.Errorf("first session to end: %s, want %s", first, want)
		}
	})
}

// TestChoicesWaitForLeaderOfLongPrompt checks that the choices of a prompt that fills KV blocks
// start after the first one, which computes the blocks that they reuse.
func TestChoicesWaitForLeaderOfLongPrompt(t *testing.T) {
	for name, tc := range map[string]struct {
		prompt string
		later  time.Duration
	}{"fills blocks": {strings.Repeat("In the beginning ", 10), tokenInterval}, "fills none": {"In the", 0}} {
		synctest.Test(t, func(t *testing.T) {
			began, at := time.Now(), make(chan string, 3)
			w := newTestGateway(t, func(ctx context.Context, call *gateway.Call) {
				at <- fmt.Sprintf("%d after %v", int64(call.Sequence.GetSampling().GetSeed()), time.Since(began))
				generate(" light", finishStop)(ctx, call)
			})
			prompt, err := json.Marshal(testTokenizer().Encode(tc.prompt, true))
			if err != nil {
				t.Fatal(err)
			}
			all := readResponses(t,
				w.post("/v1/completions", fmt.Sprintf(`{"model":"kjv","prompt":%s,"n":3,"seed":-1}`, prompt)))
			opened := []string{<-at, <-at, <-at}
			slices.Sort(opened)
			want := fmt.Sprintf("[-1 after 0s 0 after %v 1 after %v]", tc.later, tc.later)
			if fmt.Sprint(opened) != want || len(all[0].Choices) != 3 {
				t.Errorf("%s: sessions started %v, want %v; %d choices", name, opened, want, len(all[0].Choices))
			}
			n := bytes.Count(prompt, []byte(",")) + 1
			if u := all[0].Usage; u.Prompt != n || u.Completion != 3*(len(testTokenizer().Encode(" light", false))+1) ||
				u.Details.Cached != n/16*16 {
				t.Errorf("%s: usage %+v", name, u)
			}
		})
	}
}

// TestSeedPerSequence checks that the sequences of a request get consecutive seeds, starting with the
// request's own, and that requests without a seed get different ones.
func TestSeedPerSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("a", finishStop))
		w.post("/v1/completions", `{"model":"kjv","prompt":["a","b"],"n":2,"seed":9}`)
		w.post("/v1/completions", `{"model":"kjv","prompt":"a"}`)
		w.post("/v1/completions", `{"model":"kjv","prompt":"a"}`)
		opened, _ := w.sessions()
		var seeds []uint64
		for _, call := range opened {
			seeds = append(seeds, call.Sequence.GetSampling().GetSeed())
		}
		if len(seeds) != 6 {
			t.Fatalf("seeds %v", seeds)
		}
		slices.Sort(seeds[:4]) // sessions start concurrently
		if !slices.Equal(seeds[:4], []uint64{9, 9, 10, 10}) || seeds[4] == seeds[5] {
			t.Errorf("seeds %v", seeds)
		}
	})
}

// TestSequenceHasRequestParameters checks that a sequence carries the request's parameters, the
// deployment's priority and a deadline.
func TestSequenceHasRequestParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("a", finishStop))
		w.post("/v1/completions", `{"model":"kjv","prompt":"In the beginning","max_tokens":7,`+
			`"temperature":0.5,"stop_token_ids":[5],"timeout":3}`)
		w.post("/v1/completions", `{"model":"kjv","prompt":"a","priority":"batch"}`, "X-Troupe-Priority", "interactive")
		w.post("/v1/chat/completions", `{"model":"kjv","messages":[{"role":"user","content":"a"}]}`)
		opened, _ := w.sessions()
		first, second, chat := opened[0].Sequence, opened[1].Sequence, opened[2].Sequence
		if s := first.GetSampling(); s.GetMaxTokens() != 7 || s.GetTemperature() != 0.5 ||
			!slices.Equal(s.GetStopTokenIds(), []uint32{5}) ||
			!slices.Equal(first.GetPrompt(), testTokenizer().Encode("In the beginning", true)) ||
			first.GetModel() != "kjv" ||
			first.GetPriority().String() != "PRIORITY_CLASS_STANDARD" {
			t.Errorf("%v", first)
		}
		// Three earlier requests took one interval each.
		if left := time.Until(first.GetDeadline().AsTime()); left != 3*time.Second-3*tokenInterval {
			t.Errorf("the deadline is %v from now", left)
		}
		if second.GetPriority().String() != "PRIORITY_CLASS_INTERACTIVE" || second.GetSampling().GetMaxTokens() != 16 {
			t.Errorf("%v", second)
		}
		if room := 1024 - len(chat.GetPrompt()); int(chat.GetSampling().GetMaxTokens()) != room ||
			!slices.Equal(chat.GetPrompt(), testTokenizer().Encode("a\n", false)) {
			t.Errorf("%v", chat)
		}
	})
}
