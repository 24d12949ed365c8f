package openai

import (
	"encoding/json"
	"fmt"
)

// readTokens reads what becomes of a prompt's tokens, and which ones may be chosen.
func (r *Request) readTokens(b *body) error {
	var err error
	// A chat template writes the special tokens itself.
	if r.AddSpecial, err = flag("add_special_tokens", b.AddSpecialTokens, !r.Chat); err != nil {
		return err
	}
	skip, err := flag("skip_special_tokens", b.SkipSpecialTokens, true)
	if err != nil {
		return err
	}
	r.KeepSpecial = !skip
	last, err := whole("truncate_prompt_tokens", b.TruncatePromptTokens, -1, maxTokens, 0)
	if err != nil || b.TruncatePromptTokens != nil && last == 0 {
		return Invalid("truncate_prompt_tokens", fmt.Sprintf(
			"truncate_prompt_tokens is %d; it must be between 1 and %d, or -1", *b.TruncatePromptTokens, maxTokens))
	}
	r.Truncate = int(last)
	return r.readAllowed(b.AllowedTokenIDs)
}

func (r *Request) readAllowed(raw json.RawMessage) error {
	const name = "allowed_token_ids"
	if absent(raw) {
		return nil
	}
	n := elements(raw)
	if n > maxAllowed {
		return Invalid(name, fmt.Sprintf("%s has %d ids; at most %d are taken", name, n, maxAllowed))
	}
	if n == 0 || json.Unmarshal(raw, &r.Sampling.AllowedTokenIds) != nil {
		return Invalid(name, name+" must be a list of token ids, and not empty")
	}
	return nil
}
