package cost

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Measurement is a step and the time that it took.
type Measurement struct {
	Step Step
	Took time.Duration
}

const (
	// MinMeasurements is the least number of measurements that Fit accepts: twice the terms.
	MinMeasurements = 12
	folds           = 5
	// maxDivisions bounds how often the measurements are divided in the fit of Max.
	maxDivisions = 50
)

// Fit returns the costs that fit the measurements best, and the residuals of held-out ones.
func Fit(all []Measurement) (Steps, Residuals, error) {
	if err := checkMeasurements(all); err != nil {
		return Steps{}, Residuals{}, err
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, compareSteps)
	ofSum, ofMax := holdOut(all, fitSum), holdOut(all, fitMax)
	if ofMax.Mean < ofSum.Mean {
		return fitMax(all), ofMax, nil
	}
	return fitSum(all), ofSum, nil
}

func compareSteps(a, b Measurement) int {
	return cmp.Or(cmp.Compare(a.Step.Prompt, b.Step.Prompt), cmp.Compare(a.Step.Decode, b.Step.Decode),
		cmp.Compare(a.Step.Context, b.Step.Context))
}

func checkMeasurements(all []Measurement) error {
	prompts, decodes := 0, 0
	for i, m := range all {
		if m.Took <= 0 || m.Step.Prompt < 0 || m.Step.Decode < 0 || m.Step.Context < 0 ||
			m.Step.Prompt+m.Step.Decode == 0 {
			return fmt.Errorf("measurement %d: %+v took %v; a step has tokens, and takes time", i, m.Step, m.Took)
		}
		if m.Step.Prompt > 0 {
			prompts++
		}
		if m.Step.Decode > 0 {
			decodes++
		}
	}
	if len(all) < MinMeasurements || prompts < folds || decodes < folds {
		return fmt.Errorf("%d measurements, %d with prompt tokens and %d that decode; a fit needs %d, and %d of each "+
			"kind", len(all), prompts, decodes, MinMeasurements, folds)
	}
	return nil
}

// holdOut predicts each fifth of the measurements, which are in order, by a fit of the others.
func holdOut(all []Measurement, fit func([]Measurement) Steps) Residuals {
	var errs []relativeError
	for fold := range folds {
		var seen, held []Measurement
		for i, m := range all {
			if i%folds == fold {
				held = append(held, m)
			} else {
				seen = append(seen, m)
			}
		}
		errs = append(errs, stepErrors(fit(seen), held)...)
	}
	return residualsOf(errs)
}

// Judge returns the residuals of costs on measurements that they were not fitted to.
func (s Steps) Judge(all []Measurement) Residuals { return residualsOf(stepErrors(s, all)) }

func stepErrors(s Steps, all []Measurement) (errs []relativeError) {
	for _, m := range all {
		errs = append(errs, relativeError{of(s.micros(m.Step), m.Took), m.Step.String()})
	}
	return errs
}

// String describes the step: "prompt 512, decode 8, context 4096".
func (s Step) String() string {
	return fmt.Sprintf("prompt %d, decode %d, context %d", s.Prompt, s.Decode, s.Context)
}

// of returns the relative error of a prediction in microseconds.
func of(us float64, took time.Duration) float64 {
	return math.Abs(us-microsOf(took)) / microsOf(took)
}

func microsOf(d time.Duration) float64 { return float64(d) / 1e3 }

func fitSum(all []Measurement) Steps {
	rows, took := make([][]float64, len(all)), make([]float64, len(all))
	for i, m := range all {
		s := m.Step
		rows[i] = []float64{1, float64(s.Prompt), float64(s.Decode), s.pairs(), float64(s.Context)}
		took[i] = microsOf(m.Took)
	}
	x := leastSquares(rows, took)
	return Steps{Form: Sum, FixedUS: x[0], PromptTokenUS: x[1], DecodeSequenceUS: x[2], PromptPairUS: x[3],
		ContextTokenUS: x[4]}
}

// fitMax starts with steps that only decode as those bound by memory.
func fitMax(all []Measurement) (best Steps) {
	bound := make([]bool, len(all)) // by memory
	for i, m := range all {
		bound[i] = m.Step.Prompt == 0
	}
	least := math.Inf(1)
	for range maxDivisions {
		s := fitDivided(all, bound)
		if squares := squaresOf(s, all); squares < least {
			best, least = s, squares
		}
		changed := false
		for i, m := range all {
			memory := s.memory(m.Step) > s.compute(m.Step)
			changed = changed || memory != bound[i]
			bound[i] = memory
		}
		if !changed {
			break
		}
	}
	return best
}

// fitDivided fits Max to measurements, of which some are bound by memory.
func fitDivided(all []Measurement, bound []bool) Steps {
	rows, took := make([][]float64, len(all)), make([]float64, len(all))
	for i, m := range all {
		s := m.Step
		rows[i] = []float64{1, float64(s.Prompt), float64(s.Decode), s.pairs(), 0, 0}
		if bound[i] {
			rows[i] = []float64{1, 0, 0, 0, float64(s.Context), 1}
		}
		took[i] = microsOf(m.Took)
	}
	x := leastSquares(rows, took)
	return Steps{Form: Max, FixedUS: x[0], PromptTokenUS: x[1], DecodeSequenceUS: x[2], PromptPairUS: x[3],
		ContextTokenUS: x[4], WeightsUS: x[5]}
}

func squaresOf(s Steps, all []Measurement) (sum float64) {
	for _, m := range all {
		e := of(s.micros(m.Step), m.Took)
		sum += float64(e * e)
	}
	return sum
}
