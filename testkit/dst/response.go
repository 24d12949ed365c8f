package dst

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"troupe/core/sample"
)

// response is what a client has received of a response.
type response struct {
	body    []byte // not parsed yet
	pieces  int
	choices []received
	usage   *apiUsage
	done    bool      // the last event of a stream has arrived
	failed  *apiError // nil: no error was received
}

// hasText reports whether text of some choice has arrived.
func (r *response) hasText() bool {
	return slices.ContainsFunc(r.choices, func(c received) bool { return c.text != "" || c.tokens > 0 })
}

// received is what has arrived of a choice.
type received struct {
	text   string
	tokens int // number of tokens with log-probabilities
	finish string
}

type apiResponse struct {
	Choices []apiChoice `json:"choices"`
	Usage   *apiUsage   `json:"usage"`
	Error   *apiError   `json:"error"`
}

type apiChoice struct {
	Index    int             `json:"index"`
	Text     string          `json:"text"`
	Message  *apiMessage     `json:"message"`
	Delta    *apiMessage     `json:"delta"`
	Logprobs json.RawMessage `json:"logprobs"`
	Finish   *string         `json:"finish_reason"`
}

type apiMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type apiUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    *string `json:"code"`
}

func newResponse(r *request) response { return response{choices: make([]received, len(r.want))} }

// event checks an event of a stream.
func (h *httpClient) event(event []byte) {
	data, found := bytes.CutPrefix(event, []byte("data: "))
	switch {
	case !found:
		h.fail("event %q", event)
	case h.response.done:
		h.fail("event after the end: %q", event)
	case string(data) == "[DONE]":
		h.response.done = true
	default:
		h.parse(data)
	}
}

// parse checks a chunk or a complete response.
func (h *httpClient) parse(data []byte) {
	var a apiResponse
	if err := json.Unmarshal(data, &a); err != nil {
		h.fail("response %q: %v", data, err)
		return
	}
	r := &h.response
	if r.failed != nil || r.usage != nil {
		h.fail("%q after the last part", data)
	}
	r.failed, r.usage = a.Error, a.Usage
	for _, c := range a.Choices {
		if c.Index >= len(r.choices) {
			h.fail("choice %d of %d", c.Index, len(r.choices))
			continue
		}
		if err := h.choice(c); err != nil {
			h.fail("choice %d: %v", c.Index, err)
		}
	}
}

// choice checks a part of a choice against the known output, which is that of one revision of the model.
func (h *httpClient) choice(c apiChoice) error {
	got, want := &h.response.choices[c.Index], &h.want[c.Index]
	before := *got
	err := h.match(c, got, *want)
	if err == nil {
		return nil
	}
	for files := h.cluster.files[h.model]; files >= 0; files-- {
		e := h.expect[c.Index]
		e.revision = revisionOf(h.model, files)
		other, now := e.want(), before
		if !other.begins(before, *want) || h.match(c, &now, other) != nil {
			continue
		}
		*got, *want = now, other
		return nil
	}
	return err
}

// begins reports whether the output begins with what was received of another one.
func (w wanted) begins(r received, of wanted) bool {
	return strings.HasPrefix(w.text, r.text) && len(w.tokens) >= r.tokens &&
		slices.EqualFunc(w.tokens[:r.tokens], of.tokens[:r.tokens], func(a, b sample.Token) bool {
			return reflect.DeepEqual(a, b)
		})
}

// match checks a part of a choice against an output.
func (h *httpClient) match(c apiChoice, got *received, want wanted) error {
	text := c.Text
	switch {
	case h.chat && h.stream && c.Delta != nil:
		text = c.Delta.Content
	case h.chat && !h.stream && c.Message != nil:
		text = c.Message.Content
	case h.chat:
		return fmt.Errorf("it has no message")
	}
	if got.finish != "" {
		return fmt.Errorf("%q after the end", text)
	}
	if got.text += text; !strings.HasPrefix(want.text, got.text) {
		return fmt.Errorf("text is %q, want a prefix of %q", got.text, want.text)
	}
	if err := h.checkLogprobs(c, got, want); err != nil {
		return err
	}
	if c.Finish == nil {
		return nil
	}
	got.finish = *c.Finish
	switch {
	case got.finish != want.finish:
		return fmt.Errorf("finish_reason %s, want %s", got.finish, want.finish)
	case got.text != want.text:
		return fmt.Errorf("text is %q, want %q", got.text, want.text)
	case h.logprobs && got.tokens != len(want.tokens):
		return fmt.Errorf("%d of %d tokens have log-probabilities", got.tokens, len(want.tokens))
	}
	return nil
}

// finish checks a response that has ended: all choices are complete, and the usage is right.
func (h *httpClient) finish() {
	completion := 0
	for i, c := range h.response.choices {
		if c.finish == "" {
			h.fail("choice %d has not finished", i)
		}
		completion += h.want[i].completion
	}
	if h.served = true; h.status != 0 || h.connection.late {
		h.fail("served, instead of status %d or a refusal by a node that stops: %v", h.status, h.connection.late)
	}
	u := h.response.usage
	switch wanted := !h.stream || h.includeUsage; {
	case u == nil && wanted:
		h.fail("no usage")
	case u == nil:
	case !wanted:
		h.fail("usage, although it was not requested")
	case u.Prompt != h.prompt || u.Completion != completion || u.Total != u.Prompt+u.Completion:
		h.fail("usage is %+v, want %d prompt tokens and %d completion tokens", *u, h.prompt, completion)
	case u.Details.Cached < 0 || u.Details.Cached > u.Prompt:
		h.fail("%d of %d prompt tokens were cached", u.Details.Cached, u.Prompt)
	}
}

// finishStream checks a stream that has ended.
func (h *httpClient) finishStream() {
	if !h.response.done || len(h.response.body) > 0 {
		h.fail("the stream ends without its last event: %q", h.response.body)
	}
	h.finish()
}

// apiLogprob is a token of a chat with its log-probabilities.
type apiLogprob struct {
	Token   string       `json:"token"`
	Logprob float32      `json:"logprob"`
	Bytes   []int        `json:"bytes"`
	Top     []apiLogprob `json:"top_logprobs"`
}

// checkLogprobs checks the log-probabilities in a part of a choice.
func (h *httpClient) checkLogprobs(c apiChoice, got *received, want wanted) error {
	if !h.logprobs {
		if string(c.Logprobs) != "null" {
			return fmt.Errorf("log-probabilities %s, although they were not requested", c.Logprobs)
		}
		return nil
	}
	var chat struct {
		Content []apiLogprob `json:"content"`
	}
	var text struct {
		Tokens   []string             `json:"tokens"`
		Logprobs []float32            `json:"token_logprobs"`
		Top      []map[string]float32 `json:"top_logprobs"`
		Offsets  []int                `json:"text_offset"`
	}
	if h.chat {
		if err := json.Unmarshal(c.Logprobs, &chat); err != nil {
			return err
		}
	} else if err := json.Unmarshal(c.Logprobs, &text); err != nil {
		return err
	}
	for i := range max(len(chat.Content), len(text.Tokens)) {
		if got.tokens >= len(want.tokens) {
			return fmt.Errorf("more than %d tokens", len(want.tokens))
		}
		token, offset := want.tokens[got.tokens], want.offsets[got.tokens]
		got.tokens++
		name := textOf().Token(token.ID)
		if h.chat {
			l := chat.Content[i]
			if l.Token != name || l.Logprob != token.Logprob || len(l.Top) != len(token.Top) ||
				!equalBytes(l.Bytes, textOf().Bytes(token.ID)) {
				return fmt.Errorf("token %d is %+v, want %q %v", got.tokens-1, l, name, token)
			}
			for j, top := range token.Top {
				if t := l.Top[j]; t.Token != textOf().Token(top.ID) || t.Logprob != top.Logprob {
					return fmt.Errorf("top token %d of token %d is %+v, want %+v", j, got.tokens-1, t, top)
				}
			}
			continue
		}
		if text.Tokens[i] != name || text.Logprobs[i] != token.Logprob || text.Offsets[i] != offset {
			return fmt.Errorf("token %d is %q, %v, at %d, want %q, %v, at %d", got.tokens-1, text.Tokens[i],
				text.Logprobs[i], text.Offsets[i], name, token.Logprob, offset)
		}
		for _, top := range token.Top {
			if _, ok := text.Top[i][textOf().Token(top.ID)]; !ok {
				return fmt.Errorf("token %d has no top token %d", got.tokens-1, top.ID)
			}
		}
	}
	return nil
}

func equalBytes(got []int, want []byte) bool {
	if len(got) != len(want) {
		return false
	}
	for i, b := range want {
		if got[i] != int(b) {
			return false
		}
	}
	return true
}
