package openai

import (
	"encoding/json"
	"fmt"
)

// readTokenOptions reads how prompts are tokenized and truncated, and which tokens may be
// generated.
func (r *Request) readTokenOptions(b *body) error {
	var err error
	// A chat template writes the special tokens itself.
	if r.AddSpecial, err = boolField("add_special_tokens", b.AddSpecialTokens, !r.Chat); err != nil {
		return err
	}
	skip, err := boolField("skip_special_tokens", b.SkipSpecialTokens, true)
	if err != nil {
		return err
	}
	r.KeepSpecial = !skip
	last, err := intField("truncate_prompt_tokens", b.TruncatePromptTokens, -1, maxTokens, 0)
	if err != nil || b.TruncatePromptTokens != nil && last == 0 {
		return Invalid("truncate_prompt_tokens", fmt.Sprintf(
			"truncate_prompt_tokens is %d; it must be between 1 and %d, or -1", *b.TruncatePromptTokens, maxTokens))
	}
	r.Truncate = int(last)
	return r.readAllowed(b.AllowedTokenIDs)
}

func (r *Request) readAllowed(raw json.RawMessage) error {
	const name = "allowed_token_ids"
	if isNull(raw) {
		return nil
	}
	n := countElements(raw)
	if n > maxAllowedTokens {
		return Invalid(name, fmt.Sprintf("%s has %d ids; at most %d are allowed", name, n, maxAllowedTokens))
	}
	if n == 0 || json.Unmarshal(raw, &r.Sampling.AllowedTokenIds) != nil {
		return Invalid(name, name+" must be a non-empty list of token ids")
	}
	return nil
}
