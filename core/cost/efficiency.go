package cost

import (
	"fmt"
	"math"
)

// Efficiency is how close a device comes to its peaks.
type Efficiency struct {
	FixedUS float64 `yaml:"fixed_us"` // of each step
	Compute float64 `yaml:"compute"`  // share of the peak of arithmetic and links, more than 0 and at most 1
	Memory  float64 `yaml:"memory"`   // share of the bandwidth, likewise
}

// Peak is the efficiency of a lower bound.
var Peak = Efficiency{Compute: 1, Memory: 1}

func (e Efficiency) check() error {
	share := func(v float64) bool { return v > 0 && v <= 1 }
	if !share(e.Compute) || !share(e.Memory) || !(e.FixedUS >= 0) {
		return fmt.Errorf("efficiency %+v: compute and memory must be more than 0 and at most 1, and fixed_us 0 or "+
			"more; 1 is the peak", e)
	}
	return nil
}

// apply returns costs at the peak with an efficiency.
func (e Efficiency) apply(peak Steps) Steps {
	peak.FixedUS += e.FixedUS
	for _, us := range []*float64{&peak.PromptTokenUS, &peak.DecodeSequenceUS, &peak.PromptPairUS} {
		*us /= e.Compute
	}
	for _, us := range []*float64{&peak.ContextTokenUS, &peak.WeightsUS} {
		*us /= e.Memory
	}
	return peak
}

// FitEfficiency returns the efficiency with which predictions at the peak, which have the form Max and no
// fixed term, fit measurements best.
func FitEfficiency(peak Steps, all []Measurement) (Efficiency, error) {
	if peak.Form != Max || peak.FixedUS != 0 {
		return Efficiency{}, fmt.Errorf("costs of the form %q with a fixed term of %v µs; pass those that Predict "+
			"gives for Peak", peak.Form, peak.FixedUS)
	}
	if err := checkMeasurements(all); err != nil {
		return Efficiency{}, err
	}
	best, least := Peak, math.Inf(1)
	bound := make([]bool, len(all)) // by memory
	for i, m := range all {
		bound[i] = peak.memory(m.Step) > peak.compute(m.Step)
	}
	for range maxDivisions {
		rows, took := make([][]float64, len(all)), make([]float64, len(all))
		for i, m := range all {
			rows[i], took[i] = []float64{1, peak.compute(m.Step), 0}, microsOf(m.Took)
			if bound[i] {
				rows[i] = []float64{1, 0, peak.memory(m.Step)}
			}
		}
		x := leastSquares(rows, took)
		e := Efficiency{FixedUS: x[0], Compute: 1 / max(1, x[1]), Memory: 1 / max(1, x[2])}
		steps := e.apply(peak)
		if squares := squaresOf(steps, all); squares < least {
			best, least = e, squares
		}
		changed := false
		for i, m := range all {
			memory := steps.memory(m.Step) > steps.compute(m.Step)
			changed = changed || memory != bound[i]
			bound[i] = memory
		}
		if !changed {
			break
		}
	}
	return best, nil
}
