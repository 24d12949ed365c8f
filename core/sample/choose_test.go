package sample

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func logitsOf(t *rapid.T) []float32 {
	return rapid.SliceOfN(rapid.Float32Range(-8, 8), 2, 12).Draw(t, "logits")
}

// TestSupport: what is chosen passes every filter, and the same arguments choose the same token.
func TestSupport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := logitsOf(t)
		p := Params{
			Temperature: rapid.Float32Range(0.1, 2).Draw(t, "temperature"), TopK: rapid.IntRange(0, 5).Draw(t, "top_k"),
			TopP: rapid.Float32Range(0, 1).Draw(t, "top_p"), MinP: rapid.Float32Range(0, 1).Draw(t, "min_p"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		got := Choose(logits, p, nil, nil, 3).ID
		if again := Choose(logits, p, nil, nil, 3).ID; again != got {
			t.Fatalf("repeatable: %d, then %d", got, again)
		}
		weight := func(i uint32) float64 {
			return math.Exp(float64(logits[i]-slices.Max(logits)) / float64(p.Temperature))
		}
		var better, ahead, total float64
		for i := range logits {
			w := weight(uint32(i))
			if w >= float64(p.MinP) {
				total += w
			}
			if w > weight(got) {
				better++
				ahead += w
			}
		}
		switch {
		case p.TopK > 0 && int(better) >= p.TopK:
			t.Fatalf("support: %v tokens are likelier, top_k is %d", better, p.TopK)
		case weight(got) < float64(p.MinP)*(1-1e-6):
			t.Fatalf("support: weight %v, min_p is %v", weight(got), p.MinP)
		case p.TopK == 0 && p.TopP > 0 && p.TopP < 1 && ahead >= float64(p.TopP)*total*(1+1e-6):
			t.Fatalf("support: the likelier ones have %v of %v, top_p is %v", ahead, total, p.TopP)
		}
	})
}

func TestGreedy(t *testing.T) {
	nan := float32(math.NaN())
	for name, tc := range map[string]struct {
		logits []float32
		params Params
		want   uint32
	}{
		"likeliest":            {[]float32{1, 3, 2}, Params{}, 1},
		"lowest of equals":     {[]float32{1, 3, 3}, Params{}, 1},
		"passes over NaN":      {[]float32{nan, -1, nan}, Params{}, 1},
		"nothing left":         {[]float32{nan, nan}, Params{}, 0},
		"banned":               {[]float32{1, 3, 2}, Params{Banned: []uint32{1, 99}}, 2},
		"bias":                 {[]float32{1, 3, 2}, Params{LogitBias: map[uint32]float32{0: 5, 99: 1}}, 0},
		"repetition, positive": {[]float32{1, 3, 2}, Params{RepetitionPenalty: 2}, 2},
		"presence":             {[]float32{1, 2, 3}, Params{PresencePenalty: 2}, 1},
		"frequency":            {[]float32{2.2, 2, 3}, Params{FrequencyPenalty: 0.5}, 0},
	} {
		prompt, output := []uint32{1}, []uint32{2, 2}
		if name == "repetition, positive" {
			output = nil
		}
		before := slices.Clone(tc.logits)
		if got := Choose(tc.logits, tc.params, prompt, output, 0).ID; got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
		for i := range before {
			if math.Float32bits(before[i]) != math.Float32bits(tc.logits[i]) {
				t.Errorf("%s: the logits were changed", name)
			}
		}
	}
}

// TestDistribution: over many positions the frequencies follow the softmax, by a chi-square test with 4 degrees of freedom
// (99.9 %: 18.47). The seed is fixed, so the test is not a matter of luck.
func TestDistribution(t *testing.T) {
	logits, p := []float32{0, 0.5, 1, 1.5, 2}, Params{Temperature: 0.8, Seed: 42}
	const n = 20000
	var counts [5]float64
	for position := range n {
		counts[Choose(logits, p, nil, nil, position).ID]++
	}
	var total, chi float64
	for _, l := range logits {
		total += math.Exp(float64(l) / 0.8)
	}
	for i, l := range logits {
		expected := n * math.Exp(float64(l)/0.8) / total
		chi += (counts[i] - expected) * (counts[i] - expected) / expected
	}
	if chi > 18.47 {
		t.Errorf("chi-square is %.1f: %v", chi, counts)
	}
}

func TestLogprobs(t *testing.T) {
	got := Choose([]float32{0, 1, 2, 2}, Params{Logprobs: true, TopLogprobs: 3, Banned: []uint32{2}}, nil, nil, 0)
	norm := math.Log(1 + math.E + 2*math.Exp(2))
	if got.ID != 3 || math.Abs(float64(got.Logprob)-(2-norm)) > 1e-6 {
		t.Errorf("chose %d with %v, want 3 with %v: bans do not change log-probabilities", got.ID, got.Logprob, 2-norm)
	}
	if len(got.Top) != 3 || got.Top[0].ID != 2 || got.Top[1].ID != 3 || got.Top[2].ID != 1 {
		t.Errorf("likeliest: %v", got.Top)
	}
}

func TestValidate(t *testing.T) {
	nan := float32(math.NaN())
	for _, bad := range []Params{{Temperature: -1}, {Temperature: nan}, {TopP: 2}, {TopK: -1}, {MinP: -0.1}, {RepetitionPenalty: -1}, {PresencePenalty: nan}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if err := (Params{Temperature: 1, TopP: 0.9}).Validate(); err != nil {
		t.Error(err)
	}
}
