package gateway

import (
	"time"
	"unicode/utf8"

	"troupe/gateway/openai"
	"troupe/messages"
)

// answerOf returns the writer of a generation's answer.
func answerOf(gen *generation) *openai.Answer {
	a := &openai.Answer{Model: gen.request.Model, Created: time.Now().Unix(), Chat: gen.request.Chat, Usage: gen.request.IncludeUsage}
	a.ID = "cmpl-" + newID()
	if a.Chat {
		a.ID = "chat" + a.ID
	}
	return a
}

// choiceOf translates a piece.
func (gen *generation) choiceOf(p piece, offset int) openai.Choice {
	c := openai.Choice{Index: p.index, Text: p.text, Finish: p.finish, First: p.first}
	if gen.request.Sampling.GetLogprobs() {
		c.Logprobs = gen.logprobs(p, offset)
	}
	return c
}

func (gen *generation) logprobs(p piece, offset int) []openai.TokenLogprob {
	all := make([]openai.TokenLogprob, 0, len(p.logprobs))
	for i, lp := range p.logprobs {
		t := gen.token(p.tokens[i], lp.GetLogprob())
		t.Offset = offset
		offset += utf8.RuneCountInString(t.Token)
		for _, alt := range lp.GetTop() {
			t.Top = append(t.Top, gen.token(alt.GetToken(), alt.GetLogprob()))
		}
		all = append(all, t)
	}
	return all
}

func (gen *generation) token(id uint32, logprob float32) openai.TokenLogprob {
	return openai.TokenLogprob{Token: gen.model.tokenizer.Token(id), Bytes: gen.model.tokenizer.Bytes(id), Logprob: logprob}
}

// gather joins pieces to whole choices.
type gather struct {
	gen     *generation
	choices []openai.Choice
}

func newGather(gen *generation) *gather {
	g := &gather{gen: gen, choices: make([]openai.Choice, len(gen.choices))}
	for i := range g.choices {
		g.choices[i].Index = i
		if gen.request.Sampling.GetLogprobs() {
			g.choices[i].Logprobs = []openai.TokenLogprob{}
		}
	}
	return g
}

func (g *gather) write(p piece) error {
	c := &g.choices[p.index]
	part := g.gen.choiceOf(p, utf8.RuneCountInString(c.Text))
	c.Text += part.Text
	c.Logprobs = append(c.Logprobs, part.Logprobs...)
	c.Finish = part.Finish
	return nil
}

// busy is the answer to one request more than are served at once.
func busy() *openai.Error {
	e := openai.Refusal(messages.Reason_REASON_QUEUE_FULL, "too many requests are being served; try again in a moment")
	e.RetryAfter = time.Second
	return e
}
