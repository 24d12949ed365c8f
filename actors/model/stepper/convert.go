package stepper

import (
	"troupe/core/sample"
	"troupe/engine"
	"troupe/messages"
)

// engineBatch converts a step for the engine. It looks up adapters by key and gates by number.
func engineBatch(msg *messages.RunStep, find func(key string) (*engine.Adapter, error),
	gate func(uint64) (engine.Gate, error)) (_ []engine.Sequence, err error) {
	batch := make([]engine.Sequence, len(msg.GetSequences()))
	for i, s := range msg.GetSequences() {
		batch[i] = engine.Sequence{
			Tokens: s.GetTokens(), Position: int(s.GetPosition()), Blocks: s.GetBlocks(), Sample: s.GetSample(),
			Prompt: s.GetPrompt(), Output: s.GetOutput(),
		}
		if s.GetSample() {
			batch[i].Sampling = samplingOf(s.GetSampling(), s.GetBanned())
		}
		if s.GetAdapter() != "" {
			if batch[i].Adapter, err = find(s.GetAdapter()); err != nil {
				return nil, err
			}
		}
		if s.GetGate() != 0 {
			if batch[i].Gate, err = gate(s.GetGate()); err != nil {
				return nil, err
			}
		}
	}
	return batch, nil
}

func samplingOf(p *messages.SamplingParams, banned []uint32) sample.Params {
	return sample.Params{
		Temperature: p.GetTemperature(), TopP: p.GetTopP(), TopK: int(p.GetTopK()), MinP: p.GetMinP(),
		RepetitionPenalty: p.GetRepetitionPenalty(), PresencePenalty: p.GetPresencePenalty(),
		FrequencyPenalty: p.GetFrequencyPenalty(), LogitBias: p.GetLogitBias(), Seed: p.GetSeed(),
		Logprobs: p.GetLogprobs(), TopLogprobs: int(p.GetTopLogprobs()), Banned: banned,
		Allowed: p.GetAllowedTokenIds(),
	}
}

// sampledOf converts the tokens of a step: one for each sequence of the batch with Sample set.
func sampledOf(batch []engine.Sequence, tokens []sample.Token) []*messages.SampledToken {
	out := make([]*messages.SampledToken, 0, len(tokens))
	for _, s := range batch {
		if !s.Sample {
			continue
		}
		t := tokens[len(out)]
		sampled := &messages.SampledToken{Token: t.ID, NotFinite: t.NotFinite}
		if s.Sampling.Logprobs && !t.NotFinite {
			sampled.Logprobs = logprobsOf(t)
		}
		out = append(out, sampled)
	}
	return out
}

func logprobsOf(t sample.Token) *messages.TokenLogprobs {
	lp := &messages.TokenLogprobs{Logprob: t.Logprob}
	for _, alt := range t.Top {
		lp.Top = append(lp.Top, &messages.TokenLogprob{Token: alt.ID, Logprob: alt.Logprob})
	}
	return lp
}
