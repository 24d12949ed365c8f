package cost

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// chat is an 8B model on one device: weights are read in 4 ms, and 1,000 prompt tokens take 20 ms.
var chat = Steps{Form: Max, FixedUS: 1000, PromptTokenUS: 20, DecodeSequenceUS: 20, PromptPairUS: 1e-4,
	WeightsUS: 4000, ContextTokenUS: 0.03}

func chatLoad(change func(*Load)) Load {
	l := Load{Prompt: 500, Output: 200, LongPrompt: 1000, TTFT: 500 * time.Millisecond, TPOT: 30 * time.Millisecond,
		Places: 64, StepTokens: 2048, KVTokens: 100_000}
	if change != nil {
		change(&l)
	}
	return l
}

// TestCapacity computes capacities by hand.
func TestCapacity(t *testing.T) {
	for name, test := range map[string]struct {
		load Load
		want float64
	}{
		// 47.8 sequences have a P99 of 64 places. A step reads weights and context of 600 tokens each: 5.9 ms.
		"places": {chatLoad(nil), 47.8 / 200 / 5.86e-3},
		// 8 sequences of 700 tokens are the P99 of 3.59.
		"KV":                   {chatLoad(func(l *Load) { l.KVTokens = 5600 }), 3.59 / 200 / 5.06e-3},
		"TPOT is missed alone": {chatLoad(func(l *Load) { l.TPOT = 4 * time.Millisecond }), 0},
		"TTFT is missed alone": {chatLoad(func(l *Load) { l.TTFT = 20 * time.Millisecond }), 0},
		"no output":            {chatLoad(func(l *Load) { l.Output = 0 }), 0},
		"no places":            {chatLoad(func(l *Load) { l.Places = 0 }), 0},
		// The step is bound by memory, with or without prompts.
		"cached prefixes": {chatLoad(func(l *Load) { l.Cached = 1 }), 47.8 / 200 / 5.86e-3},
		// Of 4 replicas, 55.4 sequences each have a P99 of 64 places. A step takes 6.0 ms.
		"pool":            {chatLoad(func(l *Load) { l.Pool = 4 }), 55.35 / 200 / 5.996e-3},
		"unknown prompts": {chatLoad(func(l *Load) { l.Prompt = math.NaN() }), 0},
	} {
		if got := chat.Capacity(test.load); math.Abs(got-test.want) > 0.02*test.want {
			t.Errorf("%s: %.3f requests/s, want %.3f", name, got, test.want)
		}
	}
}

// TestCapacityIsMonotone checks that nothing that is easier to serve lowers the capacity.
func TestCapacityIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, least, most int) float64 {
			return float64(rapid.IntRange(least, most).Draw(t, name))
		}
		s := Steps{Form: rapid.SampledFrom([]Form{Sum, Max}).Draw(t, "form"), FixedUS: number("fixed", 1, 5000),
			PromptTokenUS: number("prompt", 1, 100), DecodeSequenceUS: number("decode", 0, 500),
			WeightsUS: number("weights", 0, 9000), ContextTokenUS: number("context", 0, 10) / 100}
		l := Load{Prompt: number("prompt tokens", 1, 4000), Output: number("output", 1, 900),
			LongPrompt: number("long", 0, 9000), TTFT: time.Duration(number("ttft", 0, 2000)) * time.Millisecond,
			TPOT: time.Duration(number("tpot", 0, 90)) * time.Millisecond, Places: int(number("places", 1, 300)),
			StepTokens: int(number("step", 1, 8000)), KVTokens: number("KV", 0, 500_000)}
		rate := s.Capacity(l)
		easier := l
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			easier.Places++
		case 1:
			easier.KVTokens *= 2
		case 2:
			easier.TTFT *= 2
		case 3:
			easier.TPOT *= 2
		case 4:
			easier.Cached = 0.5
		}
		if more := s.Capacity(easier); more < rate*(1-1e-9) || math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 {
			t.Fatalf("%v requests/s, and %v with %+v", rate, more, easier)
		}
	})
}

// TestLeastCapacity checks that the slowest replica counts, with the share of prompts that all have found, and that
// nothing is known without lengths, replicas or the costs of one.
func TestLeastCapacity(t *testing.T) {
	fast := Replica{Steps: chat, Known: true, Places: 64, StepTokens: 2048}
	slow, unknown := fast, fast
	slow.Places, unknown.Known = 16, false
	seen := Requests{Prompt: Lengths{20, 500, 900}, Output: Lengths{20, 200, 400}, Computed: 300, Cached: 100}
	many := seen
	many.Rate = 110 // one replica carries 41, two 88, and three 136
	few := seen
	few.Output.Count--
	in := func(pool int, r Replica) float64 {
		return r.Steps.Capacity(Load{Prompt: 500, LongPrompt: 900, Output: 200, Cached: 0.25, Places: r.Places,
			StepTokens: r.StepTokens, Pool: pool})
	}
	want := func(r Replica) float64 { return in(1, r) }
	for name, test := range map[string]struct {
		seen     Requests
		replicas []Replica
		want     float64
	}{
		"one":           {seen, []Replica{fast}, want(fast)},
		"the slowest":   {seen, []Replica{fast, slow, fast}, want(slow)},
		"a pool":        {many, []Replica{fast}, 110 / 2.5}, // less than each of three carries: 45
		"unknown costs": {seen, []Replica{fast, unknown}, 0},
		"few requests":  {few, []Replica{fast}, 0},
		"no replicas":   {seen, nil, 0},
	} {
		if got := LeastCapacity(test.seen, test.replicas); got != test.want {
			t.Errorf("%s: %v requests/s, want %v", name, got, test.want)
		}
	}
	if two, three := 2*in(2, fast), 3*in(3, fast); two >= many.Rate || three < 3*many.Rate/2.5 {
		t.Errorf("two carry %v, and three %v", two, three)
	}
	if want(slow) >= want(fast) || want(slow) <= 0 {
		t.Errorf("capacities %v and %v", want(fast), want(slow))
	}
}
