package openai

import (
	"encoding/json"
	"fmt"
	"strconv"

	"troupe/messages"
)

// minTopP replaces a top_p of 0, which means greedy sampling. In SamplingParams, 0 means off.
const minTopP = 1e-6

func (r *Request) readSampling(b *body) error {
	s := &messages.SamplingParams{Temperature: 1, IgnoreEos: b.IgnoreEOS}
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
			return Invalid(f.name,
				fmt.Sprintf("%s is %v; it must be between %v and %v", f.name, *f.value, f.min, f.max))
		}
		*f.to = float32(*f.value)
	}
	if b.TopP != nil {
		s.TopP = max(s.TopP, minTopP)
	}
	if b.Seed != nil {
		seed := uint64(*b.Seed)
		r.Seed = &seed
	}
	topK, err := intField("top_k", b.TopK, -1, maxTokens, 0)
	if err != nil {
		return err
	}
	s.TopK = uint32(max(topK, 0)) // vLLM: -1 means off
	if err := r.readMinTokens(b.MinTokens); err != nil {
		return err
	}
	return r.readBias(b.LogitBias)
}

// readMinTokens reads min_tokens. It must not exceed the maximum output, as far as that is known
// without the model.
func (r *Request) readMinTokens(value *int64) error {
	most := int64(maxTokens)
	if r.MaxTokens > 0 {
		most = int64(r.MaxTokens)
	} else if !r.Chat {
		most = CompletionTokens
	}
	n, err := intField("min_tokens", value, 0, most, 0)
	r.Sampling.MinTokens = uint32(n)
	return err
}

func (r *Request) readBias(raw json.RawMessage) error {
	if n := countElements(raw); n > maxLogitBias {
		return Invalid("logit_bias", fmt.Sprintf("logit_bias has %d tokens; at most %d are allowed", n, maxLogitBias))
	}
	var bias map[string]float64
	if !isNull(raw) && json.Unmarshal(raw, &bias) != nil {
		return Invalid("logit_bias", "logit_bias must be an object that maps token ids to numbers")
	}
	if len(bias) > 0 {
		r.Sampling.LogitBias = make(map[uint32]float32, len(bias))
	}
	for key, v := range bias {
		id, err := strconv.ParseUint(key, 10, 32)
		if err != nil {
			return Invalid("logit_bias", fmt.Sprintf("logit_bias: %q is not a token id", key))
		}
		if !(v >= -100 && v <= 100) {
			return Invalid("logit_bias", fmt.Sprintf("logit_bias of %s is %v; it must be between -100 and 100", key, v))
		}
		r.Sampling.LogitBias[uint32(id)] = float32(v)
	}
	return nil
}

func (r *Request) readStop(b *body) error {
	var one string
	if n := countElements(b.Stop); n > maxStopStrings {
		return Invalid("stop", fmt.Sprintf("stop has %d strings; at most %d are allowed", n, maxStopStrings))
	}
	switch {
	case isNull(b.Stop):
	case json.Unmarshal(b.Stop, &one) == nil:
		r.Stop = []string{one}
	case json.Unmarshal(b.Stop, &r.Stop) != nil:
		return Invalid("stop", "stop must be a string or a list of strings")
	}
	for _, s := range r.Stop {
		if len(s) > maxStopBytes {
			return Invalid("stop",
				fmt.Sprintf("a stop string has %d bytes; at most %d are allowed", len(s), maxStopBytes))
		}
	}
	if n := countElements(b.StopTokenIDs); n > maxStopStrings {
		return Invalid("stop_token_ids",
			fmt.Sprintf("stop_token_ids has %d ids; at most %d are allowed", n, maxStopStrings))
	}
	if !isNull(b.StopTokenIDs) && json.Unmarshal(b.StopTokenIDs, &r.Sampling.StopTokenIds) != nil {
		return Invalid("stop_token_ids", "stop_token_ids must be a list of token ids")
	}
	r.IncludeStop = b.IncludeStop
	return nil
}

// readLogprobs reads logprobs. In completions it is a number. In chats it is a bool, and
// top_logprobs is the number.
func (r *Request) readLogprobs(b *body) error {
	name, on, n := "logprobs", false, (*int64)(nil)
	if r.Chat {
		name, n = "top_logprobs", b.TopLogprobs
		if !isNull(b.Logprobs) && json.Unmarshal(b.Logprobs, &on) != nil {
			return Invalid("logprobs", "logprobs of a chat must be true or false; set the number in top_logprobs")
		}
	} else if !isNull(b.Logprobs) {
		on = true
		if json.Unmarshal(b.Logprobs, &n) != nil {
			return Invalid("logprobs", "logprobs of a completion must be a whole number")
		}
	}
	top, err := intField(name, n, 0, maxTopLogprobs, 0)
	switch {
	case err != nil:
		return err
	case !on && top > 0:
		return Invalid("top_logprobs", "top_logprobs requires logprobs: true")
	case on && r.Echo:
		return Invalid("echo", "echo with logprobs is not supported: log-probabilities of the prompt are not computed")
	}
	r.Sampling.Logprobs, r.Sampling.TopLogprobs = on, uint32(top)
	return nil
}
