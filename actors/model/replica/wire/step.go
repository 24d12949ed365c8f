package wire

import (
	"troupe/core/batch"
	"troupe/messages"
)

// StepSequence converts one entry of a step for the engine. spec is nil if the sequence was
// cancelled and is only computed until the step ends.
func (b Base) StepSequence(e batch.Entry, spec *messages.SequenceSpec, all *batch.Scheduler) *messages.StepSequence {
	s := &messages.StepSequence{Tokens: e.Tokens, Position: uint32(e.Position), Blocks: e.Blocks, Sample: e.Sample,
		Adapter: e.Adapter}
	if !e.Sample || spec == nil {
		return s
	}
	s.Sampling = spec.GetSampling()
	if needsHistory(s.Sampling) {
		s.Prompt, s.Output, _ = all.Sequence(e.ID)
	}
	if least := s.Sampling.GetMinTokens(); least > 0 {
		if _, output, _ := all.Sequence(e.ID); uint32(len(output)) < least {
			s.Banned = b.stops(spec)
		}
	}
	return s
}

// needsHistory reports whether sampling a token depends on the tokens before it.
func needsHistory(p *messages.SamplingParams) bool {
	r := p.GetRepetitionPenalty()
	return r != 0 && r != 1 || p.GetPresencePenalty() != 0 || p.GetFrequencyPenalty() != 0
}

// Sampled converts the tokens of a step, and returns the indices of those without finite logits.
func Sampled(tokens []*messages.SampledToken) (ids []uint32, notFinite []int) {
	ids = make([]uint32, len(tokens))
	for i, t := range tokens {
		if ids[i] = t.GetToken(); t.GetNotFinite() {
			notFinite = append(notFinite, i)
		}
	}
	return ids, notFinite
}

// Logprobs returns the log-probabilities of a step's tokens by request; nil if there are none.
func Logprobs(entries []batch.Entry, tokens []*messages.SampledToken) map[string]*messages.TokenLogprobs {
	var byID map[string]*messages.TokenLogprobs
	i := 0
	for _, e := range entries {
		if !e.Sample {
			continue
		}
		if lp := tokens[i].GetLogprobs(); lp != nil {
			if byID == nil {
				byID = make(map[string]*messages.TokenLogprobs)
			}
			byID[e.ID] = lp
		}
		i++
	}
	return byID
}
