package wire

import (
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/replica"
	"troupe/messages"
)

// Adapter converts the adapter of a sequence.
func Adapter(seq *messages.SequenceSpec) replica.Adapter {
	a := AdapterOf(seq.GetAdapterSpec())
	a.Requested = seq.GetAdapter()
	return a
}

// AdapterOf converts an adapter; nil is none.
func AdapterOf(spec *messages.AdapterSpec) replica.Adapter {
	return replica.Adapter{Name: spec.GetName(), Key: spec.Key(), Base: spec.GetBaseDigest(),
		HasPath: spec.GetPath() != "", Given: spec != nil}
}

// Base is the model of a replica.
type Base struct {
	Model string
	EOS   []uint32 // tokens that end a sequence
}

// Request converts a sequence with its output so far to a request of the scheduler.
func (b Base) Request(id string, seq *messages.SequenceSpec, output []uint32, now time.Time) batch.Request {
	return batch.Request{
		ID: id, Class: batch.Class(seq.GetPriority()), Arrived: now,
		Adapter: seq.GetAdapterSpec().Key(),
		Root:    kv.Root(b.Model, seq.GetAdapterSpec().Key(), seq.GetCacheSalt()),
		Prompt:  seq.GetPrompt(), Output: output,
		MaxOutput: int(seq.GetSampling().GetMaxTokens()), MinOutput: int(seq.GetSampling().GetMinTokens()),
		Stops:  b.Stops(seq),
		Client: seq.GetClient(), Weight: seq.GetWeight(),
	}
}

// Stops returns the tokens that end a sequence.
func (b Base) Stops(seq *messages.SequenceSpec) []uint32 {
	stops := append([]uint32(nil), seq.GetSampling().GetStopTokenIds()...)
	if !seq.GetSampling().GetIgnoreEos() {
		stops = append(stops, b.EOS...)
	}
	return stops
}

// NeedsHistory reports whether the choice of a token depends on the tokens before it.
func NeedsHistory(p *messages.SamplingParams) bool {
	r := p.GetRepetitionPenalty()
	return r != 0 && r != 1 || p.GetPresencePenalty() != 0 || p.GetFrequencyPenalty() != 0
}

// Finish converts the reason why a sequence ended.
func Finish(f batch.Finish) messages.FinishReason {
	switch f {
	case batch.Stop:
		return messages.FinishReason_FINISH_REASON_STOP
	case batch.Length:
		return messages.FinishReason_FINISH_REASON_LENGTH
	}
	return messages.FinishReason_FINISH_REASON_UNSPECIFIED
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

// Hashes converts hashes from bytes.
func Hashes(raw [][]byte) []kv.Hash {
	hashes := make([]kv.Hash, len(raw))
	for i, b := range raw {
		copy(hashes[i][:], b)
	}
	return hashes
}

// Bytes converts hashes to bytes.
func Bytes(hashes []kv.Hash) [][]byte {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = hashes[i][:]
	}
	return raw
}
