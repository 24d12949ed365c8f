// Package openai is the OpenAI HTTP API as data: requests with everything checked, errors, and the JSON of answers.
package openai

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"troupe/messages"
)

// Request is a completion or chat completion, checked and with defaults filled in.
type Request struct {
	Model        string
	Chat         bool
	Messages     []Message // of a chat
	Prompts      []Prompt  // of a completion
	N            int
	Stop         []string
	Stream       bool
	IncludeUsage bool
	Echo         bool
	Sampling     *messages.SamplingParams // without seed and, where MaxTokens is 0, without max_tokens
	Seed         *uint64
	MaxTokens    uint32 // 0: to the end of the context
	Priority     messages.PriorityClass
	Timeout      time.Duration
}

// Prompt is text, or tokens.
type Prompt struct {
	Text   string
	Tokens []uint32 // nil: Text
}

// Message is one turn of a chat.
type Message struct{ Role, Content string }

// Limits of a request.
const (
	DefaultTimeout  = 10 * time.Minute
	maxTimeout      = 24 * time.Hour
	maxChoices      = 128
	maxSequences    = 1024 // prompts times n
	maxStops        = 64
	maxTopLogprobs  = 20
	maxMaxTokens    = 1 << 24
	completionsMax  = 16 // max_tokens where a completion names none, as OpenAI does
	defaultSampling = 1.0
)

// body is what clients send: OpenAI's fields and vLLM's extensions.
type body struct {
	Model               string             `json:"model"`
	Prompt              json.RawMessage    `json:"prompt"`
	Messages            []json.RawMessage  `json:"messages"`
	N                   *int               `json:"n"`
	BestOf              *int               `json:"best_of"`
	MaxTokens           *int64             `json:"max_tokens"`
	MaxCompletionTokens *int64             `json:"max_completion_tokens"`
	MinTokens           *int64             `json:"min_tokens"`
	Temperature         *float64           `json:"temperature"`
	TopP                *float64           `json:"top_p"`
	TopK                *int64             `json:"top_k"`
	MinP                *float64           `json:"min_p"`
	RepetitionPenalty   *float64           `json:"repetition_penalty"`
	PresencePenalty     *float64           `json:"presence_penalty"`
	FrequencyPenalty    *float64           `json:"frequency_penalty"`
	LogitBias           map[string]float64 `json:"logit_bias"`
	Seed                *int64             `json:"seed"`
	Stop                json.RawMessage    `json:"stop"`
	StopTokenIDs        []uint32           `json:"stop_token_ids"`
	IgnoreEOS           bool               `json:"ignore_eos"`
	Logprobs            json.RawMessage    `json:"logprobs"`
	TopLogprobs         *int64             `json:"top_logprobs"`
	Stream              bool               `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Echo     bool     `json:"echo"`
	Suffix   *string  `json:"suffix"`
	Priority string   `json:"priority"`
	Timeout  *float64 `json:"timeout"`
}

// Decode reads and checks a request. Its error is an *Error.
func Decode(data []byte, chat bool) (*Request, error) {
	if !utf8.Valid(data) {
		return nil, Invalid("", "the request is not valid UTF-8")
	}
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, decodeError(err)
	}
	r := &Request{Model: b.Model, Chat: chat, N: 1, Stream: b.Stream, Echo: b.Echo, Timeout: DefaultTimeout}
	if r.Model == "" {
		return nil, Invalid("model", "model is missing; see /v1/models for those there are")
	}
	for _, step := range []func(*body) error{r.readInput, r.readShape, r.readSampling, r.readStop, r.readLogprobs} {
		if err := step(&b); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func decodeError(err error) *Error {
	switch e := err.(type) {
	case *json.UnmarshalTypeError:
		return Invalid(e.Field, fmt.Sprintf("%s is a %s; it must be a %s", e.Field, e.Value, e.Type))
	case *json.SyntaxError:
		return Invalid("", fmt.Sprintf("the request is not valid JSON: %s at byte %d", e, e.Offset))
	}
	return Invalid("", "the request is not valid JSON: "+err.Error())
}

func (r *Request) readInput(b *body) error {
	if r.Chat {
		if len(b.Messages) == 0 {
			return Invalid("messages", "messages is missing; send at least one message")
		}
		for i, raw := range b.Messages {
			m, err := message(raw)
			if err != nil {
				return Invalid(fmt.Sprintf("messages[%d]", i), fmt.Sprintf("messages[%d]: %s", i, err))
			}
			r.Messages = append(r.Messages, m)
		}
		return nil
	}
	if b.Suffix != nil && *b.Suffix != "" {
		return Invalid("suffix", "suffix is not supported: the model completes text, it does not fill gaps")
	}
	var err error
	r.Prompts, err = prompts(b.Prompt)
	return err
}

// message reads a turn; its content is a string, or a list of parts of which text is supported.
func message(raw json.RawMessage) (Message, error) {
	var m struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return Message{}, fmt.Errorf("it must be an object with role and content")
	}
	if m.Role == "" {
		return Message{}, fmt.Errorf("role is missing")
	}
	var text string
	if len(m.Content) == 0 || json.Unmarshal(m.Content, &text) == nil {
		return Message{m.Role, text}, nil
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(m.Content, &parts) != nil {
		return Message{}, fmt.Errorf("content must be a string or a list of text parts")
	}
	for _, p := range parts {
		if p.Type != "text" {
			return Message{}, fmt.Errorf("content of type %q is not supported; text is", p.Type)
		}
		text += p.Text
	}
	return Message{m.Role, text}, nil
}

// prompts reads a string, a list of tokens, or a list of either.
func prompts(raw json.RawMessage) ([]Prompt, error) {
	var text string
	var tokens []uint32
	var many []json.RawMessage
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, Invalid("prompt", "prompt is missing")
	case json.Unmarshal(raw, &text) == nil:
		return []Prompt{{Text: text}}, nil
	case json.Unmarshal(raw, &tokens) == nil && len(tokens) > 0:
		return []Prompt{{Tokens: tokens}}, nil
	case json.Unmarshal(raw, &many) != nil || len(many) == 0:
		return nil, Invalid("prompt", "prompt must be a string, a list of tokens, or a list of either, and not empty")
	}
	all := make([]Prompt, len(many))
	for i, one := range many {
		if json.Unmarshal(one, &all[i].Text) != nil && (json.Unmarshal(one, &all[i].Tokens) != nil || len(all[i].Tokens) == 0) {
			return nil, Invalid("prompt", fmt.Sprintf("prompt[%d] must be a string or a list of tokens, and not empty", i))
		}
	}
	return all, nil
}

func (r *Request) readShape(b *body) error {
	if b.N != nil {
		r.N = *b.N
	}
	if r.N < 1 || r.N > maxChoices {
		return Invalid("n", fmt.Sprintf("n is %d; it must be between 1 and %d", r.N, maxChoices))
	}
	if b.BestOf != nil && *b.BestOf != r.N {
		return Invalid("best_of", "best_of is not supported")
	}
	if len(r.Prompts)*r.N > maxSequences {
		return Invalid("prompt", fmt.Sprintf("%d prompts times n = %d is more than %d; send fewer at once", len(r.Prompts), r.N, maxSequences))
	}
	if b.StreamOptions != nil {
		if !b.Stream {
			return Invalid("stream_options", "stream_options goes with stream: true")
		}
		r.IncludeUsage = b.StreamOptions.IncludeUsage
	}
	limit := b.MaxTokens
	if b.MaxCompletionTokens != nil {
		limit = b.MaxCompletionTokens
	}
	switch {
	case limit != nil && (*limit < 1 || *limit > maxMaxTokens):
		return Invalid("max_tokens", fmt.Sprintf("max_tokens is %d; it must be between 1 and %d", *limit, maxMaxTokens))
	case limit != nil:
		r.MaxTokens = uint32(*limit)
	case !r.Chat:
		r.MaxTokens = completionsMax
	}
	if b.Timeout != nil {
		if !(*b.Timeout > 0 && *b.Timeout <= maxTimeout.Seconds()) {
			return Invalid("timeout", fmt.Sprintf("timeout is %v; it must be more than 0 and at most %v seconds", *b.Timeout, maxTimeout.Seconds()))
		}
		r.Timeout = time.Duration(*b.Timeout * float64(time.Second))
	}
	return r.SetPriority(b.Priority)
}

// SetPriority sets the class by its name; an empty one leaves it to the deployment.
func (r *Request) SetPriority(name string) error {
	if name == "" {
		return nil
	}
	class, ok := messages.PriorityClass_value["PRIORITY_CLASS_"+strings.ToUpper(name)]
	if !ok || class == 0 {
		return Invalid("priority", fmt.Sprintf("priority %q is not known; interactive, standard and batch are", name))
	}
	r.Priority = messages.PriorityClass(class)
	return nil
}

func (r *Request) readSampling(b *body) error {
	s := &messages.SamplingParams{Temperature: defaultSampling, IgnoreEos: b.IgnoreEOS}
	r.Sampling = s
	for _, f := range []struct {
		name     string
		value    *float64
		min, max float64
		to       *float32
	}{
		{"temperature", b.Temperature, 0, 2, &s.Temperature},
		{"top_p", b.TopP, 0, 1, &s.TopP},
		{"min_p", b.MinP, 0, 1, &s.MinP},
		{"repetition_penalty", b.RepetitionPenalty, 0.01, 10, &s.RepetitionPenalty},
		{"presence_penalty", b.PresencePenalty, -2, 2, &s.PresencePenalty},
		{"frequency_penalty", b.FrequencyPenalty, -2, 2, &s.FrequencyPenalty},
	} {
		if f.value == nil {
			continue
		}
		if !(*f.value >= f.min && *f.value <= f.max) {
			return Invalid(f.name, fmt.Sprintf("%s is %v; it must be between %v and %v", f.name, *f.value, f.min, f.max))
		}
		*f.to = float32(*f.value)
	}
	if b.TopP != nil && *b.TopP == 0 {
		s.TopP = 1e-6 // the likeliest token alone
	}
	if b.TopK != nil && *b.TopK != -1 { // vLLM: -1 is off
		if *b.TopK < 0 || *b.TopK > maxMaxTokens {
			return Invalid("top_k", fmt.Sprintf("top_k is %d; it must be 0 or more", *b.TopK))
		}
		s.TopK = uint32(*b.TopK)
	}
	if b.MinTokens != nil {
		if *b.MinTokens < 0 || *b.MinTokens > maxMaxTokens || r.MaxTokens > 0 && *b.MinTokens > int64(r.MaxTokens) {
			return Invalid("min_tokens", fmt.Sprintf("min_tokens is %d; it must be between 0 and max_tokens", *b.MinTokens))
		}
		s.MinTokens = uint32(*b.MinTokens)
	}
	if b.Seed != nil {
		seed := uint64(*b.Seed)
		r.Seed = &seed
	}
	return r.readBias(b.LogitBias)
}

func (r *Request) readBias(bias map[string]float64) error {
	for key, v := range bias {
		id, err := strconv.ParseUint(key, 10, 32)
		if err != nil {
			return Invalid("logit_bias", fmt.Sprintf("logit_bias: %q is no token id", key))
		}
		if !(v >= -100 && v <= 100) {
			return Invalid("logit_bias", fmt.Sprintf("logit_bias of %s is %v; it must be between -100 and 100", key, v))
		}
		if r.Sampling.LogitBias == nil {
			r.Sampling.LogitBias = make(map[uint32]float32)
		}
		r.Sampling.LogitBias[uint32(id)] = float32(v)
	}
	return nil
}

func (r *Request) readStop(b *body) error {
	var one string
	switch {
	case len(b.Stop) == 0 || string(b.Stop) == "null":
	case json.Unmarshal(b.Stop, &one) == nil:
		r.Stop = []string{one}
	case json.Unmarshal(b.Stop, &r.Stop) != nil:
		return Invalid("stop", "stop must be a string or a list of strings")
	}
	if len(r.Stop) > maxStops || len(b.StopTokenIDs) > maxStops {
		return Invalid("stop", fmt.Sprintf("more than %d stops", maxStops))
	}
	r.Sampling.StopTokenIds = b.StopTokenIDs
	return nil
}

// readLogprobs: a number in completions; true or false, with top_logprobs beside it, in chats.
func (r *Request) readLogprobs(b *body) error {
	var n int64
	var on bool
	switch {
	case len(b.Logprobs) == 0 || string(b.Logprobs) == "null":
	case r.Chat && json.Unmarshal(b.Logprobs, &on) == nil:
	case !r.Chat && json.Unmarshal(b.Logprobs, &n) == nil:
		on = true
	default:
		return Invalid("logprobs", "logprobs must be a number in a completion, and true or false in a chat")
	}
	if b.TopLogprobs != nil {
		if n = *b.TopLogprobs; !on && n != 0 {
			return Invalid("top_logprobs", "top_logprobs goes with logprobs: true")
		}
	}
	if n < 0 || n > maxTopLogprobs {
		return Invalid("logprobs", fmt.Sprintf("%d log-probabilities a token; at most %d are given", n, maxTopLogprobs))
	}
	if r.Echo && on {
		return Invalid("echo", "echo with logprobs is not supported: log-probabilities of the prompt are not computed")
	}
	r.Sampling.Logprobs, r.Sampling.TopLogprobs = on, uint32(n)
	return nil
}
