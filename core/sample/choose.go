package sample

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Validate names the first parameter that is out of range.
func (p Params) Validate() error {
	for _, c := range []struct {
		bad  bool
		text string
	}{
		{!(p.Temperature >= 0), "temperature must be 0 or more"},
		{!(p.TopP >= 0 && p.TopP <= 1), "top_p must be between 0 and 1"},
		{p.TopK < 0, "top_k must be 0 or more"},
		{!(p.MinP >= 0 && p.MinP <= 1), "min_p must be between 0 and 1"},
		{!(p.RepetitionPenalty >= 0), "repetition_penalty must be more than 0"},
		{!finite(p.PresencePenalty), "presence_penalty must be a number"},
		{!finite(p.FrequencyPenalty), "frequency_penalty must be a number"},
	} {
		if c.bad {
			return fmt.Errorf("%s", c.text)
		}
	}
	return nil
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

// Choose picks the token at a position of a sequence. Logits that are not numbers are never chosen; where none is
// left, token 0 is. Prompt and output matter only to penalties. Logits are not changed.
func Choose(logits []float32, p Params, prompt, output []uint32, position int) Token {
	adjusted := p.adjust(logits, prompt, output)
	var t Token
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

// adjust applies bias, penalties and bans. Without any it returns logits as they are.
//
// Repetition penalty: Keskar et al., "CTRL", 2019, over prompt and output. Presence and frequency penalties: as OpenAI's
// API defines them, over the output.
func (p Params) adjust(logits []float32, prompt, output []uint32) []float32 {
	repetition := p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1
	counted := p.PresencePenalty != 0 || p.FrequencyPenalty != 0
	if !repetition && !counted && len(p.LogitBias) == 0 && len(p.Banned) == 0 {
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
			x[t] = float32(math.Inf(-1))
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

func argmax(x []float32) uint32 {
	best, at := math.Inf(-1), 0
	for i, v := range x {
		if float64(v) > best {
			best, at = float64(v), i
		}
	}
	return uint32(at)
}

// candidate is a token with its probability, up to a common factor.
type candidate struct {
	id     uint32
	weight float64
}

// filter returns what may be chosen: softmax at the temperature, cut by min_p, then top_k, then top_p.
func (p Params) filter(logits []float32) []candidate {
	top := float64(logits[argmax(logits)])
	all := make([]candidate, 0, len(logits))
	for i, v := range logits {
		w := math.Exp((float64(v) - top) / float64(p.Temperature))
		if w > 0 && w >= float64(p.MinP) && w <= 1 {
			all = append(all, candidate{uint32(i), w})
		}
	}
	if p.TopK == 0 && (p.TopP == 0 || p.TopP == 1) {
		return all
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.weight, a.weight) })
	if p.TopK > 0 && p.TopK < len(all) {
		all = all[:p.TopK]
	}
	if p.TopP > 0 && p.TopP < 1 {
		all = nucleus(all, float64(p.TopP))
	}
	return all
}

// nucleus is the shortest head of the sorted candidates that has the share of their weight. Holtzman et al., "The Curious
// Case of Neural Text Degeneration", 2020.
func nucleus(all []candidate, share float64) []candidate {
	limit := share * sum(all)
	var head float64
	for i, c := range all {
		if head += c.weight; head >= limit {
			return all[:i+1]
		}
	}
	return all
}

func sum(all []candidate) (total float64) {
	for _, c := range all {
		total += c.weight
	}
	return total
}

// draw picks the candidate at the point u, in [0, 1), of their cumulated weights.
func draw(all []candidate, u float64) uint32 {
	if len(all) == 0 {
		return 0
	}
	point := u * sum(all)
	for _, c := range all {
		if point -= c.weight; point < 0 {
			return c.id
		}
	}
	return all[len(all)-1].id
}

// uniform is a number in [0, 1) that depends on seed and position alone: two rounds of SplitMix64 (Steele et al., 2014).
func uniform(seed uint64, position int) float64 {
	return float64(mix(mix(seed)+uint64(position))>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// logprobs returns the log-probability of the chosen token, and the n likeliest, of the logits as the model gave them.
func logprobs(logits []float32, chosen uint32, n int) (float32, []Logprob) {
	top := float64(logits[argmax(logits)])
	var total float64
	for _, v := range logits {
		if e := math.Exp(float64(v) - top); e <= 1 {
			total += e
		}
	}
	norm := top + math.Log(total)
	return float32(float64(logits[chosen]) - norm), likeliest(logits, norm, n)
}

// likeliest returns the n largest, in order; of equals, the lowest id first.
func likeliest(logits []float32, norm float64, n int) []Logprob {
	best := make([]Logprob, 0, n+1)
	for i, v := range logits {
		l := Logprob{uint32(i), float32(float64(v) - norm)}
		at, _ := slices.BinarySearchFunc(best, l, func(a, b Logprob) int {
			if a.Logprob >= b.Logprob {
				return -1
			}
			return 1
		})
		if at < n {
			best = slices.Insert(best, at, l)[:min(len(best)+1, n)]
		}
	}
	return best
}
