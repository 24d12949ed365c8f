package cost

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// gridSteps are steps like those that troupe calibrate runs.
func gridSteps() (all []Step) {
	for _, prompt := range []int{0, 16, 64, 256, 512} {
		for _, decode := range []int{0, 1, 2, 8, 32, 64} {
			for _, context := range []int{0, 128, 768} {
				step := Step{}
				if prompt > 0 {
					step = step.AddPrompt(prompt, context)
				}
				for range decode {
					step = step.AddDecode(context)
				}
				if prompt+decode > 0 {
					all = append(all, step)
				}
			}
		}
	}
	return all
}

// measure returns the times of the grid's steps by known costs, each off by up to a share.
func measure(s Steps, noise float64, seed uint64) (all []Measurement) {
	r := rand.New(rand.NewPCG(seed, 1))
	for _, step := range gridSteps() {
		factor := 1 + noise*(2*r.Float64()-1)
		all = append(all, Measurement{step, time.Duration(factor * float64(s.Time(step)))})
	}
	return all
}

var (
	knownSum = Steps{Form: Sum, FixedUS: 210, PromptTokenUS: 80, DecodeSequenceUS: 130, PromptPairUS: 0.03,
		ContextTokenUS: 0.05}
	knownMax = Steps{Form: Max, FixedUS: 300, PromptTokenUS: 60, DecodeSequenceUS: 60, PromptPairUS: 0.01,
		ContextTokenUS: 0.1, WeightsUS: 6000}
)

// TestFitRecoversTerms fits measurements of known costs with 2 % of noise.
func TestFitRecoversTerms(t *testing.T) {
	for _, known := range []Steps{knownSum, knownMax} {
		got, residuals, err := Fit(measure(known, 0.02, 7))
		if err != nil {
			t.Fatal(err)
		}
		if got.Form != known.Form {
			t.Errorf("the form is %s, want %s", got.Form, known.Form)
		}
		for name, pair := range map[string][2]float64{
			"fixed": {got.FixedUS, known.FixedUS}, "prompt token": {got.PromptTokenUS, known.PromptTokenUS},
			"decode sequence": {got.DecodeSequenceUS, known.DecodeSequenceUS},
			"prompt pair":     {got.PromptPairUS, known.PromptPairUS},
			"context token":   {got.ContextTokenUS, known.ContextTokenUS}, "weights": {got.WeightsUS, known.WeightsUS},
		} {
			if math.Abs(pair[0]-pair[1]) > 0.15*pair[1] {
				t.Errorf("%s: %s is %v, want %v", known.Form, name, pair[0], pair[1])
			}
		}
		if residuals.Count != len(gridSteps()) || residuals.Mean > 0.02 || residuals.Worst > 0.06 {
			t.Errorf("%s: %v", known.Form, residuals)
		}
	}
}

// TestResidualsAreOfHeldOutMeasurements checks that a measurement that no term explains has a residual
// like that of a prediction without it.
func TestResidualsAreOfHeldOutMeasurements(t *testing.T) {
	all := measure(knownSum, 0, 1)
	odd := 40
	all[odd].Took *= 3
	_, residuals, err := Fit(all)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(residuals.Worst-2.0/3) > 0.05 || residuals.WorstAt != all[odd].Step.String() {
		t.Errorf("the worst residual is %v at %s, want 0.67 at %v", residuals.Worst, residuals.WorstAt, all[odd].Step)
	}
}

// TestFitProperties checks that no term is negative, and that the order of the measurements does not
// matter.
func TestFitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Measurement
		for _, step := range gridSteps() {
			all = append(all, Measurement{step, time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "took"))})
		}
		got, residuals, err := Fit(all)
		if err != nil {
			t.Fatal(err)
		}
		for _, us := range []float64{got.FixedUS, got.PromptTokenUS, got.DecodeSequenceUS, got.PromptPairUS,
			got.ContextTokenUS, got.WeightsUS} {
			if !(us >= 0) || math.IsInf(us, 0) {
				t.Fatalf("a term is %v: %+v", us, got)
			}
		}
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1)).Shuffle(len(all), func(i, j int) {
			all[i], all[j] = all[j], all[i]
		})
		if again, same, _ := Fit(all); again != got || same != residuals {
			t.Fatalf("in another order: %+v instead of %+v", again, got)
		}
	})
}

// TestLeastSquaresIsOptimal checks that no small change of a solution fits better.
func TestLeastSquaresIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		rows, targets := make([][]float64, 20), make([]float64, 20)
		for i := range rows {
			for range 4 {
				rows[i] = append(rows[i], r.Float64()*10)
			}
			targets[i] = 0.1 + r.Float64()
		}
		squares := func(x []float64) (sum float64) {
			for i, row := range rows {
				e := -1.0
				for j, v := range row {
					e += v * x[j] / targets[i]
				}
				sum += e * e
			}
			return sum
		}
		x := leastSquares(rows, targets)
		least := squares(x)
		for j := range x {
			for _, change := range []float64{-0.001, 0.001} {
				moved := append([]float64(nil), x...)
				moved[j] = max(0, moved[j]+change)
				if squares(moved) < least-1e-6 {
					t.Fatalf("%v has %v, but %v has %v", x, least, moved, squares(moved))
				}
			}
		}
	})
}

func TestFitRefuses(t *testing.T) {
	good := measure(knownSum, 0, 1)
	noPrompts := []Measurement{}
	for _, m := range good {
		if m.Step.Prompt == 0 {
			noPrompts = append(noPrompts, m)
		}
	}
	for name, c := range map[string]struct {
		all  []Measurement
		want string
	}{
		"too few":         {good[:11], "11 measurements"},
		"no prompts":      {append(noPrompts, noPrompts...), "0 with prompt tokens"},
		"no time":         {append(good[:12:12], Measurement{Step{Prompt: 1}, 0}), "takes time"},
		"no tokens":       {append(good[:12:12], Measurement{Step{Context: 9}, 1}), "has tokens"},
		"negative tokens": {append(good[:12:12], Measurement{Step{Prompt: -1, Decode: 2}, 1}), "has tokens"},
	} {
		if _, _, err := Fit(c.all); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestTimeGrows checks that a step with more tokens or context takes no less time.
func TestTimeGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := Step{Prompt: rapid.IntRange(0, 4096).Draw(t, "prompt"),
			Decode: rapid.IntRange(0, 256).Draw(t, "decode"), Context: rapid.Int64Range(0, 1<<20).Draw(t, "context")}
		more := rapid.IntRange(1, 512).Draw(t, "more")
		for _, s := range []Steps{knownSum, knownMax} {
			took := s.Time(step)
			for name, larger := range map[string]Step{
				"prompt":  {step.Prompt + more, step.Decode, step.Context},
				"context": {step.Prompt, step.Decode, step.Context + int64(more)},
			} {
				if got := s.Time(larger); got < took {
					t.Fatalf("%v takes %v, and with %d more of %s %v", step, took, more, name, got)
				}
			}
		}
	})
	if took := knownSum.Time(Step{}); took != 0 {
		t.Errorf("a step without tokens takes %v", took)
	}
}

func TestTimeDoesNotOverflow(t *testing.T) {
	s := Steps{FixedUS: 1e300}
	if got := s.Time(Step{Decode: 1}); got != math.MaxInt64 {
		t.Error(got)
	}
}
