package sample

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func logitsOf(t *rapid.T) []float32 {
	return rapid.SliceOfN(rapid.Float32Range(-8, 8), 2, 12).Draw(t, "logits")
}

// TestChosenTokenPassesFilters checks that the chosen token passes every filter and that equal
// arguments choose the same token.
func TestChosenTokenPassesFilters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := logitsOf(t)
		p := Params{
			Temperature: rapid.Float32Range(0.1, 2).Draw(t, "temperature"), TopK: rapid.IntRange(0, 5).Draw(t, "top_k"),
			TopP: rapid.Float32Range(0, 1).Draw(t, "top_p"), MinP: rapid.Float32Range(0, 1).Draw(t, "min_p"),
			Seed: rapid.Uint64().Draw(t, "seed"),
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
			t.Fatalf("support: weight %v is below min_p %v", weight(got), p.MinP)
		case p.TopK == 0 && p.TopP > 0 && p.TopP < 1 && ahead >= float64(p.TopP)*total*(1+1e-6):
			t.Fatalf("support: likelier tokens have %v of %v, top_p is %v", ahead, total, p.TopP)
		}
	})
}

// TestFiltersMatchSorting compares the filters with sorting all candidates and truncating the list,
// including ties.
func TestFiltersMatchSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var logits []float32
		for _, v := range rapid.SliceOfN(rapid.IntRange(-3, 3), 1, 40).Draw(t, "logits") { // many ties
			logits = append(logits, float32(v))
		}
		p := Params{
			Temperature: 1, TopK: rapid.IntRange(0, 45).Draw(t, "top_k"),
			TopP: rapid.Float32Range(0, 1).Draw(t, "top_p"),
			MinP: rapid.SampledFrom([]float32{0, 0.01, 0.1, 0.5, 1}).Draw(t, "min_p"),
		}
		var all []candidate
		for i, v := range logits {
			if w := math.Exp(float64(v - slices.Max(logits))); w >= float64(p.MinP) {
				all = append(all, candidate{uint32(i), w})
			}
		}
		slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.weight, a.weight) })
		if p.TopK > 0 {
			all = all[:min(p.TopK, len(all))]
		}
		kept := len(all)
		if p.TopP > 0 && p.TopP < 1 {
			var weight float64
			for kept = 0; kept < len(all) && weight < float64(p.TopP)*sum(all); kept++ {
				weight += all[kept].weight
			}
		}
		want := ids(all[:kept])
		if got := ids(p.filter(logits)); !slices.Equal(got, want) {
			t.Fatalf("kept %v, want %v", got, want)
		}
	})
}

func ids(all []candidate) []uint32 {
	var ids []uint32
	for _, c := range all {
		ids = append(ids, c.id)
	}
	slices.Sort(ids)
	return ids
}

func TestGreedyChoosesLikeliest(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, tc := range map[string]struct {
		logits []float32
		params Params
		want   uint32
	}{
		"likeliest":            {[]float32{1, 3, 2}, Params{}, 1},
		"lowest of equals":     {[]float32{1, 3, 3}, Params{}, 1},
		"passes over NaN":      {[]float32{nan, -1, nan}, Params{}, 1},
		"nothing left":         {[]float32{nan, nan}, Params{}, 0},
		"nothing left to draw": {[]float32{-inf, nan, -inf}, Params{Temperature: 1}, 0},
		"infinite":             {[]float32{3, inf, nan}, Params{}, 1},
		"infinite, drawn":      {[]float32{3, inf, nan}, Params{Temperature: 1}, 1},
		"only one to draw":     {[]float32{nan, -inf, -1}, Params{Temperature: 1, TopP: 0.5, MinP: 0.5}, 2},
		"bans all but one":     {[]float32{1, 3, 2}, Params{Temperature: 9, Banned: []uint32{1, 2}}, 0},
		"banned":               {[]float32{1, 3, 2}, Params{Banned: []uint32{1, 99}}, 2},
		"allowed":              {[]float32{1, 3, 2}, Params{Allowed: []uint32{0, 2, 2, 99}}, 2},
		"allowed, drawn":       {[]float32{1, 3, 2}, Params{Temperature: 9, Allowed: []uint32{0}}, 0},
		"allowed, not banned":  {[]float32{1, 3, 2}, Params{Allowed: []uint32{0, 2}, Banned: []uint32{2}}, 0},
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
				t.Errorf("%s: Choose changed the logits", name)
			}
		}
	}
}

// TestFrequenciesFollowSoftmax compares the frequencies over many positions with the softmax, by a
// chi-square test with 4 degrees of freedom (99.9 %: 18.47). The seed is fixed, so the test is
// deterministic.
func TestFrequenciesFollowSoftmax(t *testing.T) {
	for _, p := range []Params{
		{Temperature: 0.8, Seed: 42}, {Temperature: 0.8, Seed: 42, TopK: 4}, {Temperature: 0.8, Seed: 43, TopP: 0.9},
		{Temperature: 0.8, Seed: 44, MinP: 0.2},
	} {
		chiSquare(t, p)
	}
}

func chiSquare(t *testing.T, p Params) {
	t.Helper()
	logits := []float32{0, 0.5, 1, 1.5, 2}
	const n = 20000
	var counts [5]float64
	for position := range n {
		counts[Choose(logits, p, nil, nil, position).ID]++
	}
	var total, chi float64
	allowed := p.filter(logits)
	for _, c := range allowed {
		total += math.Exp(float64(logits[c.id]) / 0.8)
	}
	for _, c := range allowed {
		expected := n * math.Exp(float64(logits[c.id])/0.8) / total
		chi += (counts[c.id] - expected) * (counts[c.id] - expected) / expected
		counts[c.id] = 0
	}
	if chi > 18.47 || counts != [5]float64{} {
		t.Errorf("%+v: chi-square is %.1f, counts outside the filters %v", p, chi, counts)
	}
}

// TestSeedsDiffer checks that neither consecutive seeds nor consecutive positions draw the same
// numbers.
func TestSeedsDiffer(t *testing.T) {
	seen := map[float64]bool{}
	for seed := range uint64(100) {
		for position := range 100 {
			seen[uniform(seed, position)] = true
		}
	}
	if len(seen) != 10000 {
		t.Errorf("only %d of 10000 numbers are distinct", len(seen))
	}
}

func TestLogprobs(t *testing.T) {
	got := Choose([]float32{0, 1, 2, 2}, Params{Logprobs: true, TopLogprobs: 3, Banned: []uint32{2}}, nil, nil, 0)
	norm := math.Log(1 + math.E + 2*math.Exp(2))
	if got.ID != 3 || math.Abs(float64(got.Logprob)-(2-norm)) > 1e-6 {
		t.Errorf("chose %d with %v, want 3 with %v: bans do not change log-probabilities", got.ID, got.Logprob, 2-norm)
	}
	if len(got.Top) != 3 || got.Top[0].ID != 2 || got.Top[1].ID != 3 || got.Top[2].ID != 1 {
		t.Errorf("top logprobs: %v", got.Top)
	}
}

// TestLogprobsOfNonFiniteLogits checks that log-probabilities are never NaN, so that they can be
// compared and encoded.
func TestLogprobsOfNonFiniteLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tc := range []struct {
		logits  []float32
		logprob float32
		top     []Logprob
	}{
		{[]float32{nan, 2, -inf}, 0, []Logprob{{1, 0}, {2, -inf}}},
		{[]float32{nan, nan}, -inf, nil},
		{[]float32{1, inf}, 0, []Logprob{{1, 0}, {0, -inf}}},
	} {
		got := Choose(tc.logits, Params{Logprobs: true, TopLogprobs: 5}, nil, nil, 0)
		if got.Logprob != tc.logprob || !slices.Equal(got.Top, tc.top) {
			t.Errorf("%v: %+v", tc.logits, got)
		}
	}
}
