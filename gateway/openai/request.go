package openai

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"troupe/messages"
)

// Request is a validated completion or chat completion. Defaults are filled in.
type Request struct {
	Model        string
	Chat         bool
	Messages     []Message // of a chat
	Prompts      []Prompt  // of a completion
	N            int       // choices per prompt
	Stop         []string
	IncludeStop  bool // the text includes the stop string
	Stream       bool
	IncludeUsage bool
	Echo         bool                     // the text begins with the prompt
	Sampling     *messages.SamplingParams // without seed and max_tokens
	Seed         *uint64                  // nil: random
	MaxTokens    uint32                   // 0: the default
	Priority     messages.PriorityClass   // unspecified: the deployment's default
	Timeout      time.Duration
	Wait         bool // wait until the deadline if no device has room for the model
	Truncate     int  // keep this many of the last prompt tokens; 0: all; -1: as many as fit
	AddSpecial   bool // add the special tokens that the model expects around a text
	KeepSpecial  bool // the text includes special tokens
	Template     ChatOptions
	// CacheSalt restricts prefix sharing to requests of the same tenant with the same salt. Empty
	// means none.
	CacheSalt string
}

// Limits of a request.
const (
	DefaultTimeout = 10 * time.Minute
	// CompletionTokens is the default max_tokens of a completion, as in OpenAI's API. The default
	// of a chat is the rest of the context.
	CompletionTokens = 16

	maxTimeout       = 24 * time.Hour
	maxChoices       = 128
	maxSequences     = 1024 // prompts times n
	maxStopStrings   = 64
	maxStopBytes     = 1024
	maxLogitBias     = 1024
	maxAllowedTokens = 1024
	maxTopLogprobs   = 20
	maxTokens        = 1 << 24
)

// Decode decodes and validates a request. Its errors are of type *Error.
func Decode(data []byte, chat bool) (*Request, error) {
	if !utf8.Valid(data) {
		return nil, Invalid("", "the request is not valid UTF-8")
	}
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, decodeError(err)
	}
	r := &Request{Model: b.Model, Chat: chat, Stream: b.Stream, Timeout: DefaultTimeout}
	if r.Model == "" {
		return nil, Invalid("model", "model is missing; /v1/models lists the available models")
	}
	if len(r.Model) > maxModelBytes {
		return nil, Invalid("model", fmt.Sprintf(
			"model has %d bytes, longer than any model name; /v1/models lists the available models", len(r.Model)))
	}
	for _, read := range []func(*body) error{
		rejectUnsupported, r.readPrompts, r.readChoices, r.readLimits, r.readSampling, r.readStop, r.readLogprobs,
		r.readTokenOptions, r.readChat,
	} {
		if err := read(&b); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// rejectUnsupported refuses unsupported parameters that clients rely on.
func rejectUnsupported(b *body) error {
	switch {
	case b.ResponseFormat != nil && b.ResponseFormat.Type != "text":
		return Invalid("response_format",
			fmt.Sprintf("response_format %q is not supported; use text", b.ResponseFormat.Type))
	case b.Suffix != "":
		return Invalid("suffix", "suffix is not supported: models complete text and do not fill in the middle")
	}
	return b.reject()
}

// readChoices reads the number of choices and how they are sent.
func (r *Request) readChoices(b *body) error {
	n, err := intField("n", b.N, 1, maxChoices, 1)
	if err != nil {
		return err
	}
	r.N = int(n)
	if b.BestOf != nil && *b.BestOf != n {
		return Invalid("best_of", "best_of is not supported; use n for several choices")
	}
	if len(r.Prompts)*r.N > maxSequences {
		return Invalid("prompt", fmt.Sprintf("%d prompts times n = %d exceed the maximum of %d; send fewer at once",
			len(r.Prompts), r.N, maxSequences))
	}
	if b.StreamOptions != nil {
		if !r.Stream {
			return Invalid("stream_options", "stream_options requires stream: true")
		}
		r.IncludeUsage = b.StreamOptions.IncludeUsage
	}
	r.Echo = b.Echo && !r.Chat
	return nil
}

// readLimits reads max_tokens, the timeout, the cache salt, the priority and wait.
func (r *Request) readLimits(b *body) error {
	name, limit := "max_tokens", b.MaxTokens
	if b.MaxCompletionTokens != nil {
		name, limit = "max_completion_tokens", b.MaxCompletionTokens
	}
	n, err := intField(name, limit, 1, maxTokens, 0)
	if err != nil {
		return err
	}
	r.MaxTokens = uint32(n)
	if b.Timeout != nil {
		if err := r.setTimeout(*b.Timeout); err != nil {
			return err
		}
	}
	if b.CacheSalt != nil {
		if r.CacheSalt = *b.CacheSalt; r.CacheSalt == "" {
			return Invalid("cache_salt", "cache_salt is empty; set it or leave it out")
		}
	}
	r.Wait = b.Wait
	return r.SetPriority(b.Priority)
}

// SetWait sets whether the request waits for room, as "true" or "false". Empty text changes nothing.
func (r *Request) SetWait(text string) error {
	switch text {
	case "":
	case "true", "false":
		r.Wait = text == "true"
	default:
		return Invalid("wait", fmt.Sprintf("wait %q is unknown; use true or false", text))
	}
	return nil
}

// SetTimeout sets the timeout from a number of seconds. Empty text changes nothing.
func (r *Request) SetTimeout(text string) error {
	if text == "" {
		return nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Invalid("timeout", fmt.Sprintf("timeout %q is not a number of seconds", text))
	}
	return r.setTimeout(seconds)
}

func (r *Request) setTimeout(seconds float64) error {
	if !(seconds > 0 && seconds <= maxTimeout.Seconds()) {
		return Invalid("timeout",
			fmt.Sprintf("timeout is %v; it must be more than 0 and at most %v seconds", seconds, maxTimeout.Seconds()))
	}
	r.Timeout = time.Duration(seconds * float64(time.Second))
	return nil
}

// SetPriority sets the priority class by its name. An empty name changes nothing.
func (r *Request) SetPriority(name string) error {
	if name == "" {
		return nil
	}
	class, ok := messages.PriorityClassByName(name)
	if !ok {
		return Invalid("priority", fmt.Sprintf("priority %q is unknown; use interactive, standard or batch", name))
	}
	r.Priority = class
	return nil
}

// intField returns the value of a field, or defaultValue if it is nil. The value must be within
// [minValue, maxValue].
func intField(name string, value *int64, minValue, maxValue, defaultValue int64) (int64, error) {
	if value == nil {
		return defaultValue, nil
	}
	if *value < minValue || *value > maxValue {
		return 0, Invalid(name, fmt.Sprintf("%s is %d; it must be between %d and %d", name, *value, minValue, maxValue))
	}
	return *value, nil
}
