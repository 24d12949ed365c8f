package sample

import (
	"math"
	"slices"
)

var negInf = float32(math.Inf(-1))

// Choose chooses the token at a position of a sequence. Prompt and output matter only for
// penalties. Choose does not change logits.
//
// If a logit is not finite, the model, its adapter or the device computes garbage. Choose then sets
// NotFinite, and the caller must not use the token's ID. The ID is defined nevertheless: NaN and
// -Inf are never chosen, +Inf precedes all finite logits, and if no token may be chosen the ID is
// 0.
func Choose(logits []float32, p Params, prompt, output []uint32, position int) Token {
	adjusted := p.adjust(logits, prompt, output)
	t := Token{NotFinite: !allFinite(logits)}
	if p.Temperature == 0 {
		t.ID = argmax(adjusted)
	} else {
		t.ID = draw(p.filter(adjusted), uniform(p.Seed, position))
	}
	if p.Logprobs {
		t.Logprob, t.Top = logprobs(logits, t.ID, p.TopLogprobs)
	}
	return t
}

// adjust applies bias, penalties and bans. It returns logits itself if there are none.
//
// The repetition penalty applies to prompt and output (Keskar et al., "CTRL", 2019). Presence and
// frequency penalties apply to the output, as defined by OpenAI's API.
func (p Params) adjust(logits []float32, prompt, output []uint32) []float32 {
	repetition := p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1
	counted := p.PresencePenalty != 0 || p.FrequencyPenalty != 0
	if !repetition && !counted && len(p.LogitBias) == 0 && len(p.Banned) == 0 && len(p.Allowed) == 0 {
		return logits
	}
	x := slices.Clone(logits)
	if repetition {
		seen := make(map[uint32]bool, len(prompt)+len(output))
		for _, tokens := range [][]uint32{prompt, output} {
			for _, t := range tokens {
				if int(t) < len(x) && !seen[t] {
					seen[t] = true
					x[t] = penalise(x[t], p.RepetitionPenalty)
				}
			}
		}
	}
	if counted {
		counts := make(map[uint32]float32, len(output))
		for _, t := range output {
			counts[t]++
		}
		for t, n := range counts {
			if int(t) < len(x) {
				x[t] -= p.PresencePenalty + n*p.FrequencyPenalty
			}
		}
	}
	for t, bias := range p.LogitBias {
		if int(t) < len(x) {
			x[t] += bias
		}
	}
	for _, t := range p.Banned {
		if int(t) < len(x) {
			x[t] = negInf
		}
	}
	if len(p.Allowed) > 0 {
		return only(x, p.Allowed)
	}
	return x
}

// only returns a copy of logits in which no token can be chosen except the given ones.
func only(logits []float32, tokens []uint32) []float32 {
	x := slices.Repeat([]float32{negInf}, len(logits))
	for _, t := range tokens {
		if int(t) < len(x) {
			x[t] = logits[t]
		}
	}
	return x
}

func penalise(logit, penalty float32) float32 {
	if logit > 0 {
		return logit / penalty
	}
	return logit * penalty
}

// argmax returns the index of the largest value; on a tie, the first.
func argmax(x []float32) uint32 {
	best, at := negInf, 0
	i := 0
	for ; i+4 <= len(x); i += 4 { // few logits exceed all earlier ones
		if y := (*[4]float32)(x[i:]); y[0] > best || y[1] > best || y[2] > best || y[3] > best {
			for j, v := range y {
				if v > best {
					best, at = v, i+j
				}
			}
		}
	}
	for ; i < len(x); i++ {
		if x[i] > best {
			best, at = x[i], i
		}
	}
	return uint32(at)
}

// belowTop returns the distance of v from the largest logit: 0 for that itself, infinity for a
// value that is never chosen.
func belowTop(v, top float32) float64 {
	switch {
	case v == top && v != negInf:
		return 0
	case v < top:
		return float64(top) - float64(v)
	}
	return math.Inf(1)
}

// uniform returns a number in [0, 1) that depends only on seed and position, by two rounds of
// SplitMix64 (Steele et al., 2014).
func uniform(seed uint64, position int) float64 {
	return float64(mix(mix(seed)+uint64(position))>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
