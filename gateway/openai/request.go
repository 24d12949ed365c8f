package openai

import (
	"encoding/json"
	"fmt"
	"strconv"
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
	N            int       // choices of each prompt
	Stop         []string
	IncludeStop  bool // the stop string is part of the text
	Stream       bool
	IncludeUsage bool
	Echo         bool                     // the text begins with the prompt
	Sampling     *messages.SamplingParams // without seed and max_tokens
	Seed         *uint64                  // nil: none was given
	MaxTokens    uint32                   // 0: none were given
	Priority     messages.PriorityClass   // unspecified: the deployment's
	Timeout      time.Duration
	Truncate     int  // of a prompt, only so many of its last tokens are kept; 0: all; -1: those that fit
	AddSpecial   bool // the tokens that the model expects around a text are added
	KeepSpecial  bool // special tokens are part of the text
	Template     ChatOptions
	CacheSalt    string // cached prefixes are shared only with requests of the same tenant that send the same; empty: none was given
}

// Limits of a request.
const (
	DefaultTimeout = 10 * time.Minute
	// CompletionTokens is max_tokens of a completion that gives none, as at OpenAI. A chat goes on to the end of the context.
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

// Decode reads and checks a request. Its error is an *Error.
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
		return nil, Invalid("model", "model is missing; see /v1/models for those there are")
	}
	if len(r.Model) > maxModelBytes {
		return nil, Invalid("model", fmt.Sprintf(
			"model has %d bytes, more than any name here; see /v1/models for those there are", len(r.Model)))
	}
	for _, read := range []func(*body) error{rejectUnsupported, r.readPrompts, r.readChoices, r.readLimits, r.readSampling, r.readStop, r.readLogprobs,
		r.readTokenOptions, r.readChat} {
		if err := read(&b); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// refuse refuses what would be wrong to ignore: the client counts on it.
func rejectUnsupported(b *body) error {
	switch {
	case b.ResponseFormat != nil && b.ResponseFormat.Type != "text":
		return Invalid(
			"response_format",
			fmt.Sprintf("response_format %q is not supported; text is", b.ResponseFormat.Type),
		)
	case b.Suffix != "":
		return Invalid("suffix", "suffix is not supported: the model completes text, it does not fill gaps")
	}
	return b.reject()
}

// readChoices reads how many choices there are and how they are sent.
func (r *Request) readChoices(b *body) error {
	n, err := intField("n", b.N, 1, maxChoices, 1)
	if err != nil {
		return err
	}
	r.N = int(n)
	if b.BestOf != nil && *b.BestOf != n {
		return Invalid("best_of", "best_of is not supported; n gives several choices")
	}
	if len(r.Prompts)*r.N > maxSequences {
		return Invalid(
			"prompt",
			fmt.Sprintf(
				"%d prompts times n = %d is more than %d; send fewer at once",
				len(r.Prompts),
				r.N,
				maxSequences,
			),
		)
	}
	if b.StreamOptions != nil {
		if !r.Stream {
			return Invalid("stream_options", "stream_options goes with stream: true")
		}
		r.IncludeUsage = b.StreamOptions.IncludeUsage
	}
	r.Echo = b.Echo && !r.Chat
	return nil
}

// readLimits reads how long the request may go on, its class and its cache salt.
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
			return Invalid("cache_salt", "cache_salt is empty; send a text that is not, or leave it out")
		}
	}
	return r.SetPriority(b.Priority)
}

// SetTimeout sets the time that the request has, given in seconds; an empty text changes nothing.
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
		return Invalid(
			"timeout",
			fmt.Sprintf("timeout is %v; it must be more than 0 and at most %v seconds", seconds, maxTimeout.Seconds()),
		)
	}
	r.Timeout = time.Duration(seconds * float64(time.Second))
	return nil
}

// SetPriority sets the class by its name; an empty one changes nothing.
func (r *Request) SetPriority(name string) error {
	if name == "" {
		return nil
	}
	class, ok := messages.PriorityClassByName(name)
	if !ok {
		return Invalid("priority", fmt.Sprintf("priority %q is not known; interactive, standard and batch are", name))
	}
	r.Priority = class
	return nil
}

// whole reads a whole number between two bounds; without one it returns none.
func intField(name string, value *int64, least, most, none int64) (int64, error) {
	if value == nil {
		return none, nil
	}
	if *value < least || *value > most {
		return 0, Invalid(name, fmt.Sprintf("%s is %d; it must be between %d and %d", name, *value, least, most))
	}
	return *value, nil
}
