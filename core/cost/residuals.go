package cost

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Residuals are the relative errors of predictions: |predicted - measured| / measured.
type Residuals struct {
	Count   int     `yaml:"count"` // measurements
	Mean    float64 `yaml:"mean"`
	P50     float64 `yaml:"p50"`
	P95     float64 `yaml:"p95"`
	Worst   float64 `yaml:"worst"`
	WorstAt string  `yaml:"worst_at"` // the measurement with the worst error
}

func (r Residuals) String() string {
	return fmt.Sprintf("mean %.1f %%, P50 %.1f %%, P95 %.1f %%, worst %.1f %% (%s), of %d", 100*r.Mean, 100*r.P50,
		100*r.P95, 100*r.Worst, r.WorstAt, r.Count)
}

type relativeError struct {
	size float64
	at   string
}

// residualsOf returns the residuals, with quantiles at the nearest rank.
func residualsOf(errs []relativeError) Residuals {
	n := len(errs)
	if n == 0 {
		return Residuals{}
	}
	errs = slices.Clone(errs)
	slices.SortStableFunc(errs, func(a, b relativeError) int { return cmp.Compare(a.size, b.size) })
	rank := func(q float64) float64 { return errs[max(0, int(math.Ceil(q*float64(n)))-1)].size }
	sum := 0.0
	for _, e := range errs {
		sum += e.size
	}
	worst := errs[n-1]
	return Residuals{Count: n, Mean: sum / float64(n), P50: rank(0.50), P95: rank(0.95), Worst: worst.size,
		WorstAt: worst.at}
}
