package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Lengths is a distribution of numbers of tokens. One of its fields but Max is set.
type Lengths struct {
	Fixed       int
	Exponential float64 // mean
	Lognormal   Lognormal
	Quantiles   []Quantile // in order; between two of them, lengths are spread evenly
	Max         int        // longer ones are cut to it; 0: none are
}

// Lognormal is a lognormal distribution: the logarithm of a length has a normal distribution.
type Lognormal struct {
	Median float64 // tokens
	Sigma  float64 // standard deviation of the natural logarithm
}

// Quantile is the length that a share of all lengths does not exceed.
type Quantile struct {
	Share  float64 // from 0 to 1
	Tokens float64
}

// Evenly returns the distribution with quantiles at equal distances, the first at 0 and the last at 1.
func Evenly(quantiles []float64) Lengths {
	all := make([]Quantile, len(quantiles))
	for i, q := range quantiles {
		all[i] = Quantile{float64(i) / float64(max(1, len(quantiles)-1)), q}
	}
	return Lengths{Quantiles: all}
}

// check returns an error that names the key of an invalid value.
func (l Lengths) check(key string) error {
	set := 0
	for _, is := range []bool{l.Fixed > 0, l.Exponential > 0, l.Lognormal.Median > 0, len(l.Quantiles) > 0} {
		if is {
			set++
		}
	}
	switch {
	case set != 1 || l.Fixed < 0 || l.Exponential < 0 || l.Lognormal.Median < 0:
		return &Error{Key: key, Problem: fmt.Sprintf("has %d distributions", set),
			Remedy: "set one of fixed, exponential, lognormal and quantiles"}
	case l.Lognormal.Sigma < 0 || l.Max < 0:
		return &Error{Key: key, Problem: "has a negative sigma or max", Remedy: "write numbers from 0"}
	}
	for i, q := range l.Quantiles {
		if i > 0 && (q.Share <= l.Quantiles[i-1].Share || q.Tokens < l.Quantiles[i-1].Tokens) {
			return &Error{Key: fmt.Sprintf("%s, quantile %d", key, i+1), Problem: "is not above the one before",
				Remedy: "write the quantiles in order"}
		}
	}
	if n := len(l.Quantiles); n > 0 && (l.Quantiles[0].Share != 0 || l.Quantiles[n-1].Share != 1) {
		return &Error{Key: key, Problem: "does not have the quantiles 0 and 1",
			Remedy: "add the least and the greatest length"}
	}
	return nil
}

// sample draws a length of at least 1.
func (l Lengths) sample(r *rand.Rand) int {
	tokens := 0
	switch {
	case l.Fixed > 0:
		tokens = l.Fixed
	case l.Exponential > 0:
		tokens = 1 + int(r.ExpFloat64()*l.Exponential)
	case l.Lognormal.Median > 0:
		tokens = int(math.Round(math.Min(l.Lognormal.Median*math.Exp(l.Lognormal.Sigma*r.NormFloat64()), maxTokens)))
	default:
		tokens = int(math.Round(l.at(r.Float64())))
	}
	if l.Max > 0 {
		tokens = min(tokens, l.Max)
	}
	return max(1, tokens)
}

// at returns a quantile.
func (l Lengths) at(share float64) float64 {
	for i := 1; i < len(l.Quantiles); i++ {
		if high, low := l.Quantiles[i], l.Quantiles[i-1]; share <= high.Share {
			return low.Tokens + (high.Tokens-low.Tokens)*(share-low.Share)/(high.Share-low.Share)
		}
	}
	return l.Quantiles[len(l.Quantiles)-1].Tokens
}
