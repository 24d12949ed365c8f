package gateway

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"troupe/gateway/openai"
	"troupe/messages"
	"troupe/modelfile/tokenizer"
)

// choice is one sequence, and what was made of its tokens.
type choice struct {
	index  int
	call   *Call
	prompt []uint32
	open   bool // its call is open

	follows   bool // it starts when the choice that leads it has tokens
	followers []*choice

	decoder    *tokenizer.Stream
	stopper    *tokenizer.Stopper
	echoed     string    // of the first piece: the prompt, where it is echoed
	started    bool      // the first piece was taken
	decoded    int       // tokens that were turned into text
	endTokens  int       // 1 once a token ended the sequence that has no text, such as EOS; it was generated too
	textRunes  int       // characters that they gave, the lead included
	cached     int       // prompt tokens that were found in KV blocks
	lastTokens time.Time // when tokens came last
}

// piece is what is written at once for a choice.
type piece struct {
	index    int
	text     string
	tokens   []token // where log-probabilities were asked for
	finish   string  // with the last one; else ""
	first    bool
	logprobs bool
}

// token is one of a piece's tokens.
type token struct {
	id       uint32
	offset   int // in characters, in the choice's text
	logprobs *messages.TokenLogprobs
}

func newChoice(index int, t *tokenizer.Tokenizer, r *openai.Request, prompt []uint32) *choice {
	c := &choice{
		index:   index,
		prompt:  prompt,
		decoder: t.NewStream(!r.KeepSpecial),
		stopper: tokenizer.NewStopper(r.Stop),
	}
	if slices.ContainsFunc(prompt, func(id uint32) bool { return r.KeepSpecial || !t.Special(id) }) {
		c.decoder.Continue() // otherwise the output begins the text, and its first space is cut
	}
	if r.IncludeStop {
		c.stopper.Include()
	}
	return c
}

// echo makes the text begin with the prompt.
func (c *choice) echo(p openai.Prompt, t *tokenizer.Tokenizer, skipSpecial bool) {
	if c.echoed = p.Text; p.Tokens != nil {
		c.echoed = t.Decode(p.Tokens, skipSpecial)
	}
	c.textRunes = utf8.RuneCountInString(c.echoed)
}

// take turns progress into a piece of text, cut before the stop string.
func (c *choice) decode(p progress) (out piece) {
	out = piece{index: c.index, first: !c.started, logprobs: c.call.Sequence.GetSampling().GetLogprobs()}
	var whole strings.Builder
	whole.WriteString(c.echoed)
	defer func() { out.text = whole.String() }()
	c.started, c.echoed, c.cached = true, "", int(p.cached)
	for i, id := range p.tokens {
		if i < len(p.logprobs) {
			out.tokens = append(out.tokens, token{id: id, offset: c.textRunes, logprobs: p.logprobs[i]})
		}
		decoded := c.decoder.Push(id)
		c.textRunes += utf8.RuneCountInString(decoded)
		c.decoded++
		text, stopped := c.stopper.Push(decoded)
		whole.WriteString(text)
		if stopped {
			out.finish = finishStop
			return out
		}
	}
	if p.ended() {
		if p.finish == messages.FinishReason_FINISH_REASON_STOP {
			c.endTokens = 1
		}
		text, stopped := c.stopper.Push(c.decoder.Flush())
		whole.WriteString(text)
		whole.WriteString(c.stopper.Flush())
		out.finish = finishReason(p.finish, stopped)
	}
	return out
}

// empty reports whether a piece says nothing.
func (p piece) empty() bool { return p.text == "" && p.finish == "" && len(p.tokens) == 0 && !p.first }

const (
	finishStop   = "stop"
	finishLength = "length"
)

func finishReason(reason messages.FinishReason, stopped bool) string {
	if stopped || reason == messages.FinishReason_FINISH_REASON_STOP {
		return finishStop
	}
	return finishLength
}
