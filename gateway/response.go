package gateway

import (
	"strings"
	"time"

	"troupe/gateway/openai"
)

// answerOf returns the encoder of a generation's response.
func answerOf(gen *generation) *openai.ResponseEncoder {
	a := &openai.ResponseEncoder{
		Model:        gen.request.Model,
		Created:      time.Now().Unix(),
		Chat:         gen.request.Chat,
		IncludeUsage: gen.request.IncludeUsage,
	}
	// The ID contains the ID of the first call, under which the request can be explained.
	a.ID = "cmpl-" + gen.choices[0].call.ID
	if a.Chat {
		a.ID = "chat" + a.ID
	}
	return a
}

// choiceOf converts a delta to OpenAI's form.
func (gen *generation) choiceOf(p piece) openai.Choice {
	c := openai.Choice{Index: p.index, Text: p.text, Finish: p.finish, First: p.first}
	if !p.logprobs {
		return c
	}
	c.Logprobs = make([]openai.TokenLogprob, len(p.tokens))
	for i, t := range p.tokens {
		entry := gen.logprob(t.id, t.logprobs.GetLogprob())
		entry.Offset = t.offset
		for _, alt := range t.logprobs.GetTop() {
			entry.Top = append(entry.Top, gen.logprob(alt.GetToken(), alt.GetLogprob()))
		}
		c.Logprobs[i] = entry
	}
	return c
}

func (gen *generation) logprob(id uint32, logprob float32) openai.TokenLogprob {
	return openai.TokenLogprob{
		Token:   gen.model.tokenizer.Token(id),
		Bytes:   gen.model.tokenizer.Bytes(id),
		Logprob: logprob,
	}
}

// gather joins deltas into complete choices.
type gather struct {
	gen     *generation
	choices []openai.Choice
	texts   []strings.Builder // by choice
}

func newGather(gen *generation) *gather {
	g := &gather{
		gen:     gen,
		choices: make([]openai.Choice, len(gen.choices)),
		texts:   make([]strings.Builder, len(gen.choices)),
	}
	for i := range g.choices {
		g.choices[i].Index = i
		if gen.request.Sampling.GetLogprobs() {
			g.choices[i].Logprobs = []openai.TokenLogprob{} // requested, so not null even without tokens
		}
	}
	return g
}

func (g *gather) write(p piece) error {
	c, part := &g.choices[p.index], g.gen.choiceOf(p)
	g.texts[p.index].WriteString(part.Text)
	c.Finish = part.Finish
	c.Logprobs = append(c.Logprobs, part.Logprobs...)
	return nil
}

// whole returns the choices with their texts.
func (g *gather) whole() []openai.Choice {
	for i := range g.choices {
		g.choices[i].Text = g.texts[i].String()
	}
	return g.choices
}
