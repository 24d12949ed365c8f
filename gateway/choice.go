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

// choice is one sequence of a request and the state of decoding its tokens.
type choice struct {
	index  int
	call   *Call
	prompt []uint32
	open   bool // its call is open

	isFollower bool // it starts when its leader has tokens
	followers  []*choice

	decoder     *tokenizer.Stream
	stopper     *tokenizer.Stopper
	echoed      string    // the echoed prompt, until it is written
	started     bool      // its first tokens were decoded
	decoded     int       // number of tokens decoded to text
	endTokens   int       // 1 if the sequence ended with a token without text, such as EOS
	textRunes   int       // characters decoded so far, the echoed prompt included
	cached      int       // prompt tokens found in KV blocks
	firstTokens time.Time // time of the first delivery
	lastTokens  time.Time // time of the last delivery
	arrived     time.Time // when it was requested; zero: it is not recorded
}

// delta is the new output of a choice.
type delta struct {
	index    int
	text     string
	tokens   []token // set if log-probabilities were requested
	finish   string  // finish reason, on the last one only
	first    bool    // the first one of the choice
	logprobs bool
}

// token is a generated token with its log-probabilities.
type token struct {
	id       uint32
	offset   int // in characters of the choice's text
	logprobs *messages.TokenLogprobs
}

func newChoice(index int, t *tokenizer.Tokenizer, req *openai.Request, prompt []uint32) *choice {
	c := &choice{
		index:   index,
		prompt:  prompt,
		decoder: t.NewStream(!req.KeepSpecial),
		stopper: tokenizer.NewStopper(req.Stop),
	}
	if slices.ContainsFunc(prompt, func(id uint32) bool { return req.KeepSpecial || !t.Special(id) }) {
		// The output continues the prompt, so it keeps its leading space.
		c.decoder.Continue()
	}
	if req.IncludeStop {
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

// decode converts progress to text and cuts it before a stop string.
func (c *choice) decode(p progress) (out delta) {
	out = delta{index: c.index, first: !c.started, logprobs: c.call.Sequence.GetSampling().GetLogprobs()}
	var all strings.Builder
	all.WriteString(c.echoed)
	defer func() { out.text = all.String() }()
	c.started, c.echoed, c.cached = true, "", int(p.cached)
	for i, id := range p.tokens {
		if i < len(p.logprobs) {
			out.tokens = append(out.tokens, token{id: id, offset: c.textRunes, logprobs: p.logprobs[i]})
		}
		decoded := c.decoder.Push(id)
		c.textRunes += utf8.RuneCountInString(decoded)
		c.decoded++
		text, stopped := c.stopper.Push(decoded)
		all.WriteString(text)
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
		all.WriteString(text)
		all.WriteString(c.stopper.Flush())
		out.finish = finishReason(p.finish, stopped)
	}
	return out
}

// empty reports whether d holds nothing to write.
func (d delta) empty() bool { return d.text == "" && d.finish == "" && len(d.tokens) == 0 && !d.first }

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
