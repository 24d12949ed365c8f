package cost

import (
	"math"
	"sort"
	"time"
)

// Load is what requests ask of a replica, and what it has for them.
type Load struct {
	Prompt, Output float64       // mean numbers of tokens; at least 1
	LongPrompt     float64       // P99
	Cached         float64       // share of the prompts' tokens that is found in the KV cache
	TTFT, TPOT     time.Duration // P99 within which requests are to be served; 0: not required
	Places         int           // sequences at once
	StepTokens     int           // prompt tokens of a step, at most
	KVTokens       float64       // tokens of KV cache; 0: as many as there are places
	Pool           int           // replicas among which such requests are distributed; 0 counts as 1
}

const (
	spread    = 2.326 // standard deviations of the P99 of a normal distribution
	tail      = 100   // one request in so many waits longer than the P99
	bisection = 48    // steps, of which each halves the error

	largestPool = 1 << 12 // replicas
)

// Capacity returns the rate of requests per second that each replica of a pool serves within the SLO when it has its
// devices alone; see the package comment. It is 0 if the replica misses the SLO at any rate, or if a figure
// is impossible.
func (s Steps) Capacity(l Load) float64 {
	if !(l.Prompt >= 1 && l.Output >= 1 && l.Cached >= 0 && l.Cached <= 1) || l.Places < 1 || l.StepTokens < 1 {
		return 0
	}
	l.LongPrompt = max(l.LongPrompt, l.Prompt)
	low, high := 0.0, float64(l.Places)
	for range bisection {
		if middle := (low + high) / 2; s.meets(l, middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return s.rate(l, low)
}

// pooled returns the capacity of a replica when as many of its kind as a rate of requests needs serve it. Fewer
// would each carry less than their share of the rate: it is so low that the rate, divided by it, says that too.
func (s Steps) pooled(l Load, rate float64) float64 {
	carries := func(n int) (each float64, enough bool) {
		l.Pool = n
		each = s.Capacity(l)
		return each, float64(n)*each >= rate
	}
	most := 1
	for each, enough := carries(most); !enough; each, enough = carries(most) {
		if most >= largestPool || each == 0 {
			return each
		}
		most *= 2
	}
	n := most/2 + 1 + sort.Search(most-most/2-1, func(i int) bool {
		_, enough := carries(most/2 + 1 + i)
		return enough
	})
	each, _ := carries(n)
	if n > 1 {
		each = min(each, rate/(float64(n)-0.5))
	}
	return each
}

// rate returns the requests per second that have the given mean number of sequences running.
func (s Steps) rate(l Load, running float64) float64 {
	step := s.mean(l, running)
	if step <= 0 {
		return 0
	}
	return running / l.Output / step * 1e6
}

// mean returns the mean time of a step in microseconds: each sequence decodes one token, and one prompt is
// computed for each sequence that ends.
func (s Steps) mean(l Load, running float64) float64 {
	return s.of(l, running, running/l.Output)
}

// of returns the microseconds of a step with sequences that decode, and some whole prompts.
func (s Steps) of(l Load, running, prompts float64) float64 {
	compute := float64(prompts*s.prompt(l.computed())) + float64(running*s.DecodeSequenceUS)
	memory := s.WeightsUS + float64(running*(l.Prompt+l.Output/2))*s.ContextTokenUS
	if s.Form == Max {
		return s.FixedUS + max(compute, memory)
	}
	return s.FixedUS + compute + memory
}

// computed returns the tokens of a prompt that are not found in the KV cache.
func (l Load) computed() float64 { return l.Prompt * (1 - l.Cached) }

// prompt returns the microseconds of arithmetic for a prompt.
func (s Steps) prompt(tokens float64) float64 {
	return float64(tokens*s.PromptTokenUS) + float64(tokens*tokens/2)*s.PromptPairUS
}

// meets reports whether requests are served within the SLO with a mean number of sequences running.
func (s Steps) meets(l Load, running float64) bool {
	pool := float64(max(1, l.Pool))
	most := max(1, running+spread*math.Sqrt(running/pool)) // P99 of the number of sequences
	if most > float64(l.Places) || l.KVTokens > 0 && most*(l.Prompt+l.Output) > l.KVTokens {
		return false
	}
	// Beside the long prompt, a step has the other sequences, and it waits for the step before.
	chunks := math.Ceil(l.LongPrompt / float64(l.StepTokens))
	ttft := s.mean(l, most) + float64(chunks*s.of(l, most, 0)) + s.prompt(l.LongPrompt) + s.queue(l, running)
	return within(ttft, l.TTFT) && within(s.mean(l, most), l.TPOT)
}

// queue returns the P99 of the microseconds for which a prompt waits for other prompts: the wait in an M/D/1
// queue, whose tail is about exponential.
func (s Steps) queue(l Load, running float64) float64 {
	each := s.prompt(l.computed())
	busy := s.rate(l, running) * each / 1e6
	switch {
	case busy >= 1:
		return math.Inf(1)
	case tail*busy <= 1:
		return 0
	}
	return each * math.Log(tail*busy) / (2 * (1 - busy))
}

// within reports whether a time in microseconds is at most the one that is required.
func within(us float64, most time.Duration) bool {
	return most <= 0 || us <= float64(most)/float64(time.Microsecond)
}
