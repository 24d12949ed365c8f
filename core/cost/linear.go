package cost

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"troupe/core/units"
)

// Linear is the time of a copy or load: a latency, and the bytes over a bandwidth.
type Linear struct {
	LatencyUS      float64 `yaml:"latency_us"`
	BytesPerSecond float64 `yaml:"bytes_per_second"` // 0: bytes take no time
}

// Time returns how long the bytes take.
func (l Linear) Time(bytes int64) time.Duration { return microseconds(l.micros(bytes)) }

func (l Linear) micros(bytes int64) float64 {
	if l.BytesPerSecond <= 0 {
		return l.LatencyUS
	}
	return l.LatencyUS + 1e6*float64(max(0, bytes))/l.BytesPerSecond
}

// Transfer is a number of bytes and the time that they took.
type Transfer struct {
	Bytes int64
	Took  time.Duration
}

// minHeldOut is the number of sizes from which on each size is predicted by a fit of the others.
const minHeldOut = 4

// FitLinear returns the line that fits the transfers best. Those of one size alone give a bandwidth and
// no latency. Residuals are of held-out sizes if there are at least four.
func FitLinear(all []Transfer) (Linear, Residuals, error) {
	sizes := make(map[int64]bool)
	for i, t := range all {
		if t.Bytes <= 0 || t.Took <= 0 {
			return Linear{}, Residuals{}, fmt.Errorf("transfer %d: %d bytes in %v; both must be more than 0",
				i, t.Bytes, t.Took)
		}
		sizes[t.Bytes] = true
	}
	if len(all) == 0 {
		return Linear{}, Residuals{}, errors.New("no transfers; measure at least one size")
	}
	line := fitLine(all, len(sizes))
	if len(sizes) < minHeldOut {
		return line, residualsOf(transferErrors(line, all)), nil
	}
	var errs []relativeError
	for _, bytes := range slices.Sorted(maps.Keys(sizes)) {
		held := slices.DeleteFunc(slices.Clone(all), func(t Transfer) bool { return t.Bytes != bytes })
		seen := slices.DeleteFunc(slices.Clone(all), func(t Transfer) bool { return t.Bytes == bytes })
		errs = append(errs, transferErrors(fitLine(seen, len(sizes)-1), held)...)
	}
	return line, residualsOf(errs), nil
}

func fitLine(all []Transfer, sizes int) Linear {
	rows, took := make([][]float64, len(all)), make([]float64, len(all))
	for i, t := range all {
		rows[i] = []float64{1, float64(t.Bytes)}
		if sizes == 1 {
			rows[i][0] = 0
		}
		took[i] = microsOf(t.Took)
	}
	x := leastSquares(rows, took)
	line := Linear{LatencyUS: x[0]}
	if x[1] > 0 {
		line.BytesPerSecond = 1e6 / x[1]
	}
	return line
}

func transferErrors(l Linear, all []Transfer) (errs []relativeError) {
	for _, t := range all {
		errs = append(errs, relativeError{of(l.micros(t.Bytes), t.Took), units.FormatBytes(t.Bytes)})
	}
	return errs
}
