package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// unsupportedFields are parameters of OpenAI and vLLM that would change the response but are not
// implemented.
type unsupportedFields struct {
	BadWords          json.RawMessage `json:"bad_words"`
	GuidedJSON        json.RawMessage `json:"guided_json"`
	GuidedRegex       json.RawMessage `json:"guided_regex"`
	GuidedChoice      json.RawMessage `json:"guided_choice"`
	GuidedGrammar     json.RawMessage `json:"guided_grammar"`
	GuidedJSONObject  json.RawMessage `json:"guided_json_object"`
	GuidedBackend     json.RawMessage `json:"guided_decoding_backend"`
	GuidedWhitespace  json.RawMessage `json:"guided_whitespace_pattern"`
	StructuredOutputs json.RawMessage `json:"structured_outputs"`
	BeamSearch        json.RawMessage `json:"use_beam_search"`
	LengthPenalty     json.RawMessage `json:"length_penalty"`
	EarlyStopping     json.RawMessage `json:"early_stopping"`
	PromptLogprobs    json.RawMessage `json:"prompt_logprobs"`
	PromptEmbeds      json.RawMessage `json:"prompt_embeds"`
	LogitsProcessors  json.RawMessage `json:"logits_processors"`
	TokensAsTokenIDs  json.RawMessage `json:"return_tokens_as_token_ids"`
	TokenIDs          json.RawMessage `json:"return_token_ids"`
	SpacesBetween     json.RawMessage `json:"spaces_between_special_tokens"`
	Tools             json.RawMessage `json:"tools"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	Functions         json.RawMessage `json:"functions"`
	FunctionCall      json.RawMessage `json:"function_call"`
	Documents         json.RawMessage `json:"documents"`
	Modalities        json.RawMessage `json:"modalities"`
	ReasoningEffort   json.RawMessage `json:"reasoning_effort"`
	ChatTemplate      json.RawMessage `json:"chat_template"`
}

const (
	noGuided = "structured output is not implemented; validate the output and retry"
	textOnly = "models generate only text"
)

// reject refuses unsupported parameters that clients rely on. Default values are accepted.
func (u *unsupportedFields) reject() error {
	for _, p := range []struct {
		name     string
		value    json.RawMessage
		defaults []string // besides null; [] is any empty list
		why      string
	}{
		{"bad_words", u.BadWords, []string{"[]"}, "use a logit_bias of -100 to ban single tokens"},
		{"guided_json", u.GuidedJSON, nil, noGuided},
		{"guided_regex", u.GuidedRegex, nil, noGuided},
		{"guided_choice", u.GuidedChoice, nil, noGuided},
		{"guided_grammar", u.GuidedGrammar, nil, noGuided},
		{"guided_json_object", u.GuidedJSONObject, []string{"false"}, noGuided},
		{"guided_decoding_backend", u.GuidedBackend, nil, noGuided},
		{"guided_whitespace_pattern", u.GuidedWhitespace, nil, noGuided},
		{"structured_outputs", u.StructuredOutputs, nil, noGuided},
		{"use_beam_search", u.BeamSearch, []string{"false"}, "tokens are sampled; use n for several choices"},
		{"length_penalty", u.LengthPenalty, []string{"1", "1.0"}, "it applies only to beam search"},
		{"early_stopping", u.EarlyStopping, []string{"false"}, "it applies only to beam search"},
		{"prompt_logprobs", u.PromptLogprobs, nil, "log-probabilities of the prompt are not computed"},
		{"prompt_embeds", u.PromptEmbeds, nil, "send the prompt as text or tokens"},
		{"logits_processors", u.LogitsProcessors, []string{"[]"}, "use logit_bias"},
		{"return_tokens_as_token_ids", u.TokensAsTokenIDs, []string{"false"}, "tokens are returned as text"},
		{"return_token_ids", u.TokenIDs, []string{"false"}, "tokens are returned as text"},
		{"spaces_between_special_tokens", u.SpacesBetween, []string{"true"}, "leave it out"},
		{"tools", u.Tools, []string{"[]"}, textOnly},
		{"tool_choice", u.ToolChoice, []string{`"none"`, `"auto"`}, textOnly},
		{"functions", u.Functions, []string{"[]"}, textOnly},
		{"function_call", u.FunctionCall, []string{`"none"`, `"auto"`}, textOnly},
		{"documents", u.Documents, []string{"[]"}, "put them into the messages"},
		{"modalities", u.Modalities, []string{`["text"]`}, textOnly},
		{"reasoning_effort", u.ReasoningEffort, nil, "use chat_template_kwargs if the template supports it"},
		{"chat_template", u.ChatTemplate, nil, "the chat template in the model's folder is used"},
	} {
		if !isNull(p.value) && !slices.ContainsFunc(p.defaults, func(d string) bool { return equalJSON(p.value, d) }) {
			return Invalid(p.name, fmt.Sprintf("%s is not supported: %s", p.name, p.why))
		}
	}
	return nil
}

// equalJSON reports whether a value equals text, apart from white space.
func equalJSON(value json.RawMessage, text string) bool {
	if len(value) > 64 {
		return false
	}
	var compact bytes.Buffer
	return json.Compact(&compact, value) == nil && compact.String() == text
}
