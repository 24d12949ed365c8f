package simulate

import (
	"fmt"
	"time"
)

// Seeds returns the seeds of runs: "seed 1" or "seeds 1 to 3".
func Seeds(all []Result) string {
	if len(all) > 1 {
		return fmt.Sprintf("seeds %d to %d", all[0].Seed, all[len(all)-1].Seed)
	}
	return fmt.Sprint("seed ", all[0].Seed)
}

func lengthOf(r Result) time.Duration { return time.Duration(r.Seconds * 1e9).Round(time.Second) }

// Spread is how the values of a figure are spread over seeds.
type Spread struct{ Mean, Low, High float64 }

// spreadOf returns the spread of the values that are known. It reports false if none is.
func spreadOf(values []*float64) (s Spread, known bool) {
	n := 0
	for _, v := range values {
		if v == nil {
			continue
		}
		if n++; n == 1 {
			s.Low, s.High = *v, *v
		}
		s.Mean, s.Low, s.High = s.Mean+*v, min(s.Low, *v), max(s.High, *v)
	}
	s.Mean /= float64(max(1, n))
	return s, n > 0
}

// spread formats the values of a figure, one for each seed: the mean, the lowest and the highest.
func (f figure) spread(values []*float64) string {
	s, known := spreadOf(values)
	low, high := f.text(s.Low), f.text(s.High)
	switch {
	case !known:
		return "-"
	case low == high:
		return f.text(s.Mean)
	}
	return fmt.Sprintf("%s (%s-%s)", f.text(s.Mean), low, high)
}
