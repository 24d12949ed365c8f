package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// body is the JSON of a request: OpenAI's fields, vLLM's extensions, and ours (priority, timeout, wait).
// Lists stay raw until their elements are counted.
type body struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            json.RawMessage `json:"messages"`
	N                   *int64          `json:"n"`
	BestOf              *int64          `json:"best_of"`
	MaxTokens           *int64          `json:"max_tokens"`
	MaxCompletionTokens *int64          `json:"max_completion_tokens"`
	MinTokens           *int64          `json:"min_tokens"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	TopK                *int64          `json:"top_k"`
	MinP                *float64        `json:"min_p"`
	RepetitionPenalty   *float64        `json:"repetition_penalty"`
	PresencePenalty     *float64        `json:"presence_penalty"`
	FrequencyPenalty    *float64        `json:"frequency_penalty"`
	LogitBias           json.RawMessage `json:"logit_bias"`
	Seed                *int64          `json:"seed"`
	Stop                json.RawMessage `json:"stop"`
	StopTokenIDs        json.RawMessage `json:"stop_token_ids"`
	IncludeStop         bool            `json:"include_stop_str_in_output"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	Logprobs            json.RawMessage `json:"logprobs"`
	TopLogprobs         *int64          `json:"top_logprobs"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Echo     bool     `json:"echo"`
	Suffix   string   `json:"suffix"`
	Priority string   `json:"priority"`
	Timeout  *float64 `json:"timeout"`
	Wait     bool     `json:"wait"`

	CacheSalt *string `json:"cache_salt"`

	AddSpecialTokens     json.RawMessage `json:"add_special_tokens"`
	SkipSpecialTokens    json.RawMessage `json:"skip_special_tokens"`
	TruncatePromptTokens *int64          `json:"truncate_prompt_tokens"`
	AllowedTokenIDs      json.RawMessage `json:"allowed_token_ids"`

	AddGenerationPrompt  json.RawMessage `json:"add_generation_prompt"`
	ContinueFinalMessage json.RawMessage `json:"continue_final_message"`
	ChatTemplateKwargs   json.RawMessage `json:"chat_template_kwargs"`

	// Fields that are refused unless they have their default value.
	unsupportedFields
	ResponseFormat *struct {
		Type string `json:"type"`
	} `json:"response_format"`
}

// isNull reports whether a field is missing or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func decodeError(err error) *Error {
	var mistyped *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field == "":
		return Invalid("", fmt.Sprintf("the request must be an object, not %s", mistyped.Value))
	case errors.As(err, &mistyped):
		return Invalid(mistyped.Field,
			fmt.Sprintf("%s must be %s, not %s", mistyped.Field, typeName(mistyped.Type), mistyped.Value))
	case errors.As(err, &syntax):
		return Invalid("", fmt.Sprintf("the request is not valid JSON: %s at byte %d", syntax, syntax.Offset))
	}
	return Invalid("", "the request is not valid JSON: "+err.Error())
}

// typeName describes the JSON type of a Go type.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "a whole number"
	case reflect.Uint32:
		return "a token id"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}
