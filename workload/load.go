package workload

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Load describes requests to generate.
type Load struct {
	Length  time.Duration
	Rate    float64 // arrivals per second, without Diurnal and Spikes
	CV      float64 // of the gaps between arrivals; 0 and 1: a Poisson process
	Diurnal Diurnal
	Spikes  []Spike

	Models   Names // empty: requests have no model
	Adapters Names // of each model; empty: none

	Prompt, Output Lengths
	Conversation   Conversation
}

// Diurnal changes the rate around Rate, with one peak in each period. The zero value leaves it as it is.
//
// Of the rate, the share Depth follows the Sharpness-th power of a raised cosine, and the rest is constant. With a
// Sharpness of 1 that is a cosine, whose peak is 1 + Depth times the mean. With n it is 4ⁿ/(2n choose n) - 1 instead
// of 1: 1.67 with 2, 2.20 with 3, 3.77 with 7.
type Diurnal struct {
	Period    time.Duration // 0: 24 h
	Depth     float64       // from 0 to 1
	Peak      time.Duration // time of a peak
	Sharpness int           // from 1 to 100; 0: 1
}

// Spike multiplies the rate for a while. Of two at once, the increases are added.
type Spike struct {
	At, Length time.Duration
	Factor     float64 // at least 1
}

// Check returns an error that names the key of an invalid value, and the remedy.
func (l Load) Check() error {
	wrong := func(key, problem, remedy string) error { return &Error{Key: key, Problem: problem, Remedy: remedy} }
	switch {
	case l.Length <= 0:
		return wrong("length", "is not positive", "write a duration such as 10m")
	case !(l.Rate > 0) || l.Rate > 1e9:
		return wrong("rate", fmt.Sprintf("%v is not a rate", l.Rate), "write the arrivals per second, above 0")
	case !(l.CV >= 0) || l.CV > 1000:
		return wrong("cv", fmt.Sprintf("%v is not a coefficient of variation", l.CV),
			"write a number from 0; 1 is a Poisson process")
	case !(l.Diurnal.Depth >= 0) || l.Diurnal.Depth > 1 || l.Diurnal.Period < 0:
		return wrong("diurnal", "has a depth outside of 0 to 1, or a negative period",
			"write a depth such as 0.5, and a period such as 24h")
	case l.Diurnal.Sharpness < 0 || l.Diurnal.Sharpness > 100:
		return wrong("diurnal", fmt.Sprintf("has the sharpness %d", l.Diurnal.Sharpness),
			"write a whole number from 1 to 100, or leave it out for a cosine")
	}
	for i, s := range l.Spikes {
		if s.Length <= 0 || s.At < 0 || !(s.Factor >= 1) {
			return wrong(fmt.Sprintf("spike %d", i+1), "has no length, begins before 0, or lowers the rate",
				"write a length such as 30s and a factor of at least 1")
		}
	}
	for key, n := range map[string]Names{"models": l.Models, "adapters": l.Adapters} {
		if !(n.Zipf >= 0) || n.Count < 0 || n.Count > 0 && len(n.List) > 0 {
			return wrong(key, "has a negative exponent or count, or both a count and a list",
				"write a list of names, or a count; and a zipf from 0")
		}
	}
	if err := l.Prompt.check("prompt"); err != nil {
		return err
	}
	if err := l.Output.check("output"); err != nil {
		return err
	}
	return l.Conversation.check()
}

// Requests generates the requests. The first one arrives at 0.
func (l Load) Requests(seed uint64) Source {
	if err := l.Check(); err != nil {
		return failed(err)
	}
	return func(yield func(Request, error) bool) {
		r := rand.New(rand.NewPCG(seed, 0))
		models, adapters := l.Models.sampler(r), l.Adapters.sampler(r)
		talks := newConversations(l.Conversation, seed)
		// The order of the draws is fixed, since it decides which requests a seed gives.
		for at := time.Duration(0); at < l.Length; at = l.after(at, l.gap(r)) {
			q := Request{
				At: at, Model: models(), Adapter: adapters(), Prompt: l.Prompt.sample(r), Output: l.Output.sample(r),
			}
			if talks != nil {
				talks.extend(&q, r)
			}
			if !yield(q, nil) {
				return
			}
		}
	}
}
