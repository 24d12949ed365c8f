package gateway

import (
	"strings"

	"troupe/gateway/openai"
)

// newResponseEncoder returns the encoder of a generation's response.
func newResponseEncoder(gen *generation) *openai.ResponseEncoder {
	a := &openai.ResponseEncoder{
		Model:        gen.req.Model,
		Created:      gen.rt.Now().Unix(),
		Chat:         gen.req.Chat,
		IncludeUsage: gen.req.IncludeUsage,
		Simulated:    gen.simulated,
	}
	// The ID contains the ID of the first call, under which the request can be explained.
	a.ID = "cmpl-" + gen.choices[0].call.ID
	if a.Chat {
		a.ID = "chat" + a.ID
	}
	return a
}

// toChoice converts a delta to OpenAI's form.
func (gen *generation) toChoice(d delta) openai.Choice {
	c := openai.Choice{Index: d.index, Text: d.text, Finish: d.finish, First: d.first}
	if !d.logprobs {
		return c
	}
	c.Logprobs = make([]openai.TokenLogprob, len(d.tokens))
	for i, t := range d.tokens {
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

// accumulator joins deltas into complete choices.
type accumulator struct {
	gen     *generation
	choices []openai.Choice
	texts   []strings.Builder // by choice
}

func newAccumulator(gen *generation) *accumulator {
	a := &accumulator{
		gen:     gen,
		choices: make([]openai.Choice, len(gen.choices)),
		texts:   make([]strings.Builder, len(gen.choices)),
	}
	for i := range a.choices {
		a.choices[i].Index = i
		if gen.req.Sampling.GetLogprobs() {
			a.choices[i].Logprobs = []openai.TokenLogprob{} // requested, so not null even without tokens
		}
	}
	return a
}

func (a *accumulator) add(d delta) error {
	c, part := &a.choices[d.index], a.gen.toChoice(d)
	a.texts[d.index].WriteString(part.Text)
	c.Finish = part.Finish
	c.Logprobs = append(c.Logprobs, part.Logprobs...)
	return nil
}

// result returns the choices with their texts.
func (a *accumulator) result() []openai.Choice {
	for i := range a.choices {
		a.choices[i].Text = a.texts[i].String()
	}
	return a.choices
}
