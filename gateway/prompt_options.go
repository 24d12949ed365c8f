package gateway

import (
	"fmt"

	"troupe/gateway/openai"
)

// framing is what becomes of a prompt's tokens.
type framing struct {
	special bool // the tokens that the model expects around a text are added
	last    int  // only so many of the last tokens are kept; 0: all
}

// maxCut is how many times the context a prompt may have that is cut: all of it is tokenized.
const maxCut = 4

// framing returns what a request asks for.
func (m *model) framing(r *openai.Request) (framing, error) {
	f := framing{special: r.AddSpecial, last: r.Truncate}
	if f.last > m.context {
		return f, openai.Invalid("truncate_prompt_tokens", fmt.Sprintf(
			"truncate_prompt_tokens is %d; the model's context is %d tokens", f.last, m.context))
	}
	if f.last < 0 {
		f.last = max(1, m.context-max(1, int(r.MaxTokens)))
	}
	return f, nil
}

// checkLength reports a prompt that cannot fit: one of that many tokens or more.
func (m *model) checkLength(least int, f framing) error {
	switch {
	case f.last == 0 && least >= m.context:
		return m.tooLong(least)
	case least >= maxCut*m.context:
		e := m.tooLong(least)
		e.Message = fmt.Sprintf("the prompt has %d tokens or more; truncate_prompt_tokens cuts at most %d times "+
			"the model's context of %d: shorten the prompt", least, maxCut, m.context)
		return e
	}
	return nil
}
