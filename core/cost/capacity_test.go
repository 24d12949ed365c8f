package cost

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// chat is an 8B model on one device: weights are read in 4 ms, and 1,000 prompt tokens take 20 ms.
var chat = Steps{Form: Max, FixedUS: 1000, PromptTokenUS: 20, DecodeSequenceUS: 20, PromptPairUS: 1e-4,
	WeightsUS: 4000, ContextTokenUS: 0.03}

func chatLoad(change func(*Load)) Load {
	l := Load{Prompt: 500, Output: 200, LongPrompt: 1000, Places: 64, StepTokens: 2048}
	if change != nil {
		change(&l)
	}
	return l
}

// TestCapacities computes capacities by hand.
func TestCapacities(t *testing.T) {
	for name, test := range map[string]struct {
		load Load
		want []float64
	}{
		// Without an SLO, all places are in use: 63.52 by sequences that decode, and 0.48 by prompts. A step reads the
		// weights and the context of 64 sequences of 600 tokens: 6.152 ms. For each of 63.52 prompts in 200 steps, it
		// takes 6.14 ms longer.
		"throughput": {chatLoad(nil),
			[]float64{63.52 / 200 / 8.102e-3, 127.04 / 200 / 8.102e-3, 190.56 / 200 / 8.102e-3}},
		// 8 sequences of 700 tokens have KV cache. A step takes 5.144 ms, and 6.03 ms longer with a prompt.
		"KV": {chatLoad(func(l *Load) { l.KVTokens = 6200 }), []float64{7.918 / 200 / 5.383e-3}},
		// The P99 of 16 sequences is 25.3, with which a step takes 5.455 ms. Since 16 begin in 200 steps, it takes
		// 0.08 times 6.06 ms longer: 5.94 ms. In the mean, a step takes 5.79 ms. 23.7 is the P99 of 16.94 on each of
		// two.
		"TPOT": {chatLoad(func(l *Load) { l.TPOT = 5940 * time.Microsecond }),
			[]float64{16 / 200. / 5.79e-3, 2 * 16.94 / 200. / 5.835e-3}},
		// 200 steps of 5.26 ms and a prompt of 11 ms take 1.063 s. At 4.69 requests/s, 4.98 of 8 places are in use.
		// 16.5 % wait for one (Erlang), and 6.1 % of these for more than 1 s less a prompt and half a step.
		"places": {chatLoad(func(l *Load) { l.Places, l.TTFT = 8, time.Second }), []float64{4.69}},
		// With σ = 1, waits are e / 2 times as long. 10.7 % of the requests wait for a place, and 9.4 % of these too
		// long.
		"outputs that vary": {chatLoad(func(l *Load) { l.Places, l.TTFT, l.LongOutput = 8, time.Second, 1241.8 }),
			[]float64{4.258}},
		// A prompt takes 11.9 ms, 36 % of the time. It waits for others for more than 34.6 ms, what is left of 50 ms,
		// with a probability of 0.36 · exp(-34.6 / 9.29) = 0.87 %. All 64 places are in use 0.2 % of the time.
		"prompts": {chatLoad(func(l *Load) { l.LongPrompt, l.TTFT = 500, 50*time.Millisecond }),
			[]float64{30.26}},
		"TPOT is missed alone": {chatLoad(func(l *Load) { l.TPOT = 4 * time.Millisecond }), []float64{0, 0}},
		"TTFT is missed alone": {chatLoad(func(l *Load) { l.TTFT = 20 * time.Millisecond }), []float64{0, 0}},
		"no output":            {chatLoad(func(l *Load) { l.Output = 0 }), []float64{0, 0}},
		"no places":            {chatLoad(func(l *Load) { l.Places = 0 }), []float64{0}},
		"no KV":                {chatLoad(func(l *Load) { l.KVTokens = 500 }), []float64{0}},
		"unknown prompts":      {chatLoad(func(l *Load) { l.Prompt = math.NaN() }), []float64{0}},
		"no replicas":          {chatLoad(nil), nil},
	} {
		got := chat.Capacities(test.load, len(test.want))
		if !slices.EqualFunc(got, test.want, func(a, b float64) bool { return math.Abs(a-b) <= 0.004*b }) {
			t.Errorf("%s: %.3f requests/s, want %.3f", name, got, test.want)
		}
	}
}

// TestCapacitiesAreMonotone checks that what is easier to serve lowers no capacity, but for what longer steps with more
// sequences cost, and that with more replicas each one serves at least as much.
func TestCapacitiesAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, least, most int) float64 {
			return float64(rapid.IntRange(least, most).Draw(t, name))
		}
		s := Steps{Form: rapid.SampledFrom([]Form{Sum, Max}).Draw(t, "form"), FixedUS: number("fixed", 1, 5000),
			PromptTokenUS: number("prompt", 1, 100), DecodeSequenceUS: number("decode", 0, 500),
			WeightsUS: number("weights", 0, 9000), ContextTokenUS: number("context", 0, 10) / 100}
		l := Load{Prompt: number("prompt tokens", 1, 4000), Output: number("output", 16, 900),
			LongPrompt: number("long", 0, 9000), LongOutput: number("long output", 0, 9000),
			TTFT: time.Duration(number("ttft", 0, 2000)) * time.Millisecond,
			TPOT: time.Duration(number("tpot", 0, 90)) * time.Millisecond, Places: int(number("places", 1, 300)),
			StepTokens: int(number("step", 64, 8000)), KVTokens: number("KV", 0, 500_000)}
		replicas := rapid.IntRange(1, MostCapacities).Draw(t, "replicas")
		rates := s.Capacities(l, replicas)
		easier := l
		switch rapid.IntRange(0, 2).Draw(t, "what") {
		case 0:
			easier.TTFT *= 2
		case 1:
			easier.TPOT *= 2
		case 2:
			easier.Cached = 0.5
		}
		more := s.Capacities(easier, replicas)
		for i, rate := range rates {
			if math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 || more[i] < 0.9*rate {
				t.Fatalf("%v requests/s, and %v with %+v", rates, more, easier)
			}
			if i > 0 && rate/float64(i+1) < rates[i-1]/float64(i)*(1-1e-9) {
				t.Fatalf("%v requests/s: each of %d serves less than before", rates, i+1)
			}
		}
	})
}

// TestErlangC compares the share of requests that wait with the definition, also for so many places that only the last
// ones are computed.
func TestErlangC(t *testing.T) {
	for _, c := range []struct {
		places int
		load   float64
	}{{1, 0.5}, {8, 3}, {64, 48}, {64, 63.9}, {2000, 1900}, {8192, 8000}} {
		sum, term := 0.0, 1.0 // the probabilities of fewer sequences, over that of as many as places
		for n := c.places; n > 0; n-- {
			term *= float64(n) / c.load
			sum += term
		}
		last := 1 / (1 - c.load/float64(c.places))
		if got, want := erlangC(float64(c.places), c.load), last/(sum+last); math.Abs(got-want) > 1e-9*want {
			t.Errorf("%d places and %g sequences: %v, want %v", c.places, c.load, got, want)
		}
	}
}

// TestLognormal checks that distributions have the mean and the P99 that they should have.
func TestLognormal(t *testing.T) {
	for _, c := range [][2]float64{{300, 300}, {300, 800}, {300, 3000}} {
		median, sigma := lognormal(c[0], c[1])
		mean, p99 := median*math.Exp(sigma*sigma/2), median*math.Exp(spread*sigma)
		if math.Abs(mean-c[0]) > 1e-9*c[0] || math.Abs(p99-c[1]) > 1e-9*c[1] {
			t.Errorf("%v: a mean of %v and a P99 of %v", c, mean, p99)
		}
	}
	if _, sigma := lognormal(1, 100); sigma != spread {
		t.Errorf("σ is %v with an impossible P99", sigma)
	}
}

// TestLeastCapacities checks that the slowest replica counts, with the share of prompts that all have found, and that
// nothing is known without lengths, replicas or the costs of one, or if the SLO is missed at any rate.
func TestLeastCapacities(t *testing.T) {
	fast := Replica{Steps: chat, Known: true, Places: 64, StepTokens: 2048}
	slow, unknown := fast, fast
	slow.Places, unknown.Known = 16, false
	seen := Requests{Prompt: Lengths{20, 500, 900}, Output: Lengths{20, 200, 400}, TTFT: time.Second, Computed: 300,
		Cached: 100}
	few, impossible := seen, seen
	few.Output.Count--
	impossible.TPOT = time.Millisecond
	want := func(r Replica) []float64 {
		return r.Steps.Capacities(Load{Prompt: 500, LongPrompt: 900, Output: 200, LongOutput: 400, Cached: 0.25,
			TTFT: time.Second, Places: r.Places, StepTokens: r.StepTokens}, 3)
	}
	for name, test := range map[string]struct {
		seen     Requests
		replicas []Replica
		want     []float64
	}{
		"one":           {seen, []Replica{fast}, want(fast)},
		"the slowest":   {seen, []Replica{fast, slow, fast}, want(slow)},
		"unknown costs": {seen, []Replica{fast, unknown}, nil},
		"few requests":  {few, []Replica{fast}, nil},
		"no replicas":   {seen, nil, nil},
		"missed":        {impossible, []Replica{fast}, nil},
	} {
		if got := LeastCapacities(test.seen, test.replicas, 3); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v requests/s, want %v", name, got, test.want)
		}
	}
	if want(slow)[0] >= want(fast)[0] || want(slow)[0] <= 0 {
		t.Errorf("capacities %v and %v", want(fast), want(slow))
	}
}
