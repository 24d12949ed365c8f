package gateway

import (
	"fmt"

	"troupe/gateway/openai"
)

// promptOptions control how a prompt is tokenized and truncated.
type promptOptions struct {
	addSpecial bool // add the special tokens that the model expects around a text
	keepLast   int  // keep only this many of the last tokens; 0: all
}

// maxTruncation is the maximum length of a prompt that is truncated, as a multiple of the context.
// All of the prompt is tokenized.
const maxTruncation = 4

// promptOptions returns the options of a request.
func (m *model) promptOptions(req *openai.Request) (promptOptions, error) {
	opts := promptOptions{addSpecial: req.AddSpecial, keepLast: req.Truncate}
	if opts.keepLast > m.context {
		return opts, openai.Invalid("truncate_prompt_tokens", fmt.Sprintf(
			"truncate_prompt_tokens is %d; the model's context is %d tokens", opts.keepLast, m.context))
	}
	if opts.keepLast < 0 {
		opts.keepLast = max(1, m.context-max(1, int(req.MaxTokens)))
	}
	return opts, nil
}

// checkLength returns an error if a prompt of at least minTokens tokens cannot fit.
func (m *model) checkLength(minTokens int, opts promptOptions) error {
	switch {
	case opts.keepLast == 0 && minTokens >= m.context:
		return m.tooLong(minTokens)
	case minTokens >= maxTruncation*m.context:
		e := m.tooLong(minTokens)
		e.Message = fmt.Sprintf("the prompt has %d tokens or more; truncate_prompt_tokens cuts at most %d times "+
			"the model's context of %d: shorten the prompt", minTokens, maxTruncation, m.context)
		return e
	}
	return nil
}
