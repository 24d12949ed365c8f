package workload

import (
	"math"
	"strings"
	"testing"
	"time"
)

var some = Load{
	Length: time.Hour, Rate: 50, Prompt: Lengths{Fixed: 1000}, Output: Lengths{Exponential: 20, Max: 60},
}

func measured(t *testing.T, l Load) Statistics {
	t.Helper()
	s, err := Measure(l.Requests(1))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got/want-1) <= tolerance) {
		t.Errorf("%s: %.4f, want %.4f", what, got, want)
	}
}

// TestArrivals checks rate and CV of 180,000 requests.
func TestArrivals(t *testing.T) {
	for _, cv := range []float64{0, 0.5, 1, 3} {
		l := some
		l.CV = cv
		s, want := measured(t, l), cv
		if cv == 0 {
			want = 1 // a Poisson process
		}
		near(t, "rate", s.Rate(), 50, 0.03)
		near(t, "CV", s.CV, want, 0.03)
	}
}

// TestDiurnal checks the number of requests around the peak and the trough: over a quarter of the period, the mean
// of the cosine is 2·sqrt(2)/π.
func TestDiurnal(t *testing.T) {
	l := some
	l.Diurnal = Diurnal{Period: 20 * time.Minute, Depth: 0.8, Peak: 5 * time.Minute}
	counts, all := [4]float64{}, 0.0
	for r, err := range l.Requests(1) {
		if err != nil {
			t.Fatal(err)
		}
		// The peak is in the middle of the first quarter.
		moved := r.At + 2*time.Minute + 30*time.Second - 5*time.Minute + 20*time.Minute
		counts[int(moved%(20*time.Minute)/(5*time.Minute))]++
		all++
	}
	mean := 2 * math.Sqrt2 / math.Pi * 0.8
	near(t, "requests", all, 180_000, 0.02)
	for i, want := range [4]float64{1 + mean, 1, 1 - mean, 1} {
		near(t, "quarter", counts[i], want*all/4, 0.03)
	}
}

// TestSharpness compares the integral of the rate with sums over small steps of the power of the raised cosine.
func TestSharpness(t *testing.T) {
	for _, n := range []int{1, 2, 7, 26, 100} {
		d := Diurnal{Period: time.Hour, Depth: 0.9, Peak: 10 * time.Minute, Sharpness: n}
		power := func(at float64) float64 {
			return math.Pow((1+math.Cos(2*math.Pi*(at-600)/3600))/2, float64(n))
		}
		const steps = 36_000
		mean, sum := 0.0, 0.0
		for i := range steps {
			mean += power(float64(i)*0.1+0.05) / steps
		}
		for i := range steps {
			sum += (0.1 + 0.9*power(float64(i)*0.1+0.05)/mean) * 0.1
			if at := float64(i+1) * 0.1; math.Abs(d.area(at)-sum) > 0.01 {
				t.Fatalf("sharpness %d: %v requests until %v s, want %v", n, d.area(at), at, sum)
			}
		}
	}
}

// TestSpikes checks the number of requests in two spikes that overlap, and outside of them.
func TestSpikes(t *testing.T) {
	l := some
	l.Spikes = []Spike{{20 * time.Minute, 20 * time.Minute, 5}, {30 * time.Minute, 10 * time.Minute, 3}}
	counts := [6]float64{}
	for r, err := range l.Requests(1) {
		if err != nil {
			t.Fatal(err)
		}
		counts[r.At/(10*time.Minute)]++
	}
	for i, factor := range [6]float64{1, 1, 5, 7, 1, 1} {
		near(t, "10 minutes", counts[i], factor*30_000, 0.03)
	}
}

// TestNames checks the shares of names by a Zipf law, below and above an exponent of 1, and equal shares.
func TestNames(t *testing.T) {
	for _, zipf := range []float64{0, 0.8, 1.3} {
		l := some
		l.Models, l.Adapters = Names{List: []string{"only"}}, Names{Name: "a", Count: 20, Zipf: zipf}
		s := measured(t, l)
		var sum float64
		for i := 1; i <= 20; i++ {
			sum += math.Pow(float64(i), -zipf)
		}
		for _, i := range []int{1, 2, 10} {
			got := float64(s.Adapters[l.Adapters.At(i-1)]) / float64(s.Requests)
			near(t, "share", got, math.Pow(float64(i), -zipf)/sum, 0.06)
		}
		if s.Models["only"] != s.Requests || len(s.Adapters) != 20 {
			t.Errorf("models %v, adapters %v", s.Models, s.Adapters)
		}
	}
}

// TestLengths checks the quantiles of each distribution.
func TestLengths(t *testing.T) {
	l := some
	l.Prompt = Lengths{Quantiles: []Quantile{{0, 10}, {0.5, 100}, {0.9, 1000}, {1, 5000}}}
	l.Output = Lengths{Lognormal: Lognormal{Median: 200, Sigma: 0.5}, Max: 500}
	s := measured(t, l)
	for share, want := range map[float64]float64{0.25: 55, 0.5: 100, 0.7: 550, 0.9: 1000, 0.95: 3000} {
		near(t, "quantile of prompts", float64(s.Prompt(share)), want, 0.03)
	}
	for share, z := range map[float64]float64{0.1: -1.2816, 0.5: 0, 0.9: 1.2816} {
		near(t, "quantile of outputs", float64(s.Output(share)), 200*math.Exp(0.5*z), 0.03)
	}
	if s.Output(1) != 500 {
		t.Errorf("longest output %d, want 500", s.Output(1))
	}
	s = measured(t, some)
	if s.Prompt(0) != 1000 || s.Prompt(1) != 1000 || s.Output(0) != 1 || s.Output(1) != 60 {
		t.Errorf("prompts %d to %d, outputs %d to %d", s.Prompt(0), s.Prompt(1), s.Output(0), s.Output(1))
	}
}

// TestConversations checks that conversations share prefixes as far as they are the same, that a model's
// system prompt is in all its prompts, and that lengths and arrivals are those without conversations.
func TestConversations(t *testing.T) {
	l := some
	l.Rate, l.Models = 5, Names{List: []string{"a", "b"}}
	l.Prompt = Lengths{Exponential: 3000}
	l.Conversation = Conversation{Turns: 3, System: 1024, Block: 256}
	s := measured(t, l)
	plain := l
	plain.Conversation = Conversation{}
	p := measured(t, plain)
	near(t, "prompts", float64(s.Prompt(0.9)), float64(p.Prompt(0.9)), 0.03)
	near(t, "rate", s.Rate(), p.Rate(), 0.03)
	if s.Reused < 0.3 || s.Reused > 0.9 || !math.IsNaN(p.Reused) {
		t.Errorf("reused %.2f, without conversations %.2f", s.Reused, p.Reused)
	}
	tokens := map[string]int{}
	system, turns, owner := map[string]uint64{}, map[string]int{}, map[uint64]string{}
	for r, err := range l.Requests(1) {
		if err != nil {
			t.Fatal(err)
		}
		turns[r.Client]++
		if r.Prompt <= tokens[r.Client] {
			t.Fatalf("a prompt of %d tokens continues %d", r.Prompt, tokens[r.Client])
		}
		tokens[r.Client] = r.Prompt + r.Output
		if len(r.Prefix) != r.Prompt/256 || r.PrefixBlock != 256 {
			t.Fatalf("%d hashes of %d tokens for a prompt of %d", len(r.Prefix), r.PrefixBlock, r.Prompt)
		}
		for i, h := range r.Prefix {
			if want := map[bool]string{true: r.Model, false: r.Client}[i < 4]; owner[h] == "" {
				owner[h] = want
			} else if owner[h] != want {
				t.Fatalf("block %d of %s is also of %s", i, want, owner[h])
			}
		}
		if len(r.Prefix) == 0 {
			continue
		}
		if first := system[r.Model]; first != 0 && first != r.Prefix[0] {
			t.Fatal("two prompts of a model begin with different blocks")
		}
		system[r.Model] = r.Prefix[0]
	}
	if system["a"] == system["b"] {
		t.Error("two models begin with the same block")
	}
	near(t, "turns", float64(s.Requests)/float64(len(turns)), 3, 0.35) // a short prompt continues nothing
}

// TestReused checks that only leading blocks count as reused.
func TestReused(t *testing.T) {
	s, err := Measure(Of([]Request{{Prefix: []uint64{1, 2, 3}}, {Prefix: []uint64{1, 4, 3}}, {Prefix: []uint64{5, 2}}}))
	if err != nil || s.Reused != 1.0/8 {
		t.Errorf("reused %v, %v", s.Reused, err)
	}
}

// TestCheck checks that each invalid load is refused with the key and a remedy.
func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Load){
		"length ":              func(l *Load) { l.Length = 0 },
		"rate ":                func(l *Load) { l.Rate = math.NaN() },
		"cv ":                  func(l *Load) { l.CV = -1 },
		"diurnal ":             func(l *Load) { l.Diurnal.Depth = 1.5 },
		"diurnal has the":      func(l *Load) { l.Diurnal.Sharpness = 101 },
		"spike 1 ":             func(l *Load) { l.Spikes = []Spike{{Length: 1, Factor: 0.5}} },
		"models ":              func(l *Load) { l.Models = Names{List: []string{"a"}, Count: 2} },
		"adapters ":            func(l *Load) { l.Adapters.Zipf = math.NaN() },
		"prompt has 0":         func(l *Load) { l.Prompt = Lengths{} },
		"output has 2":         func(l *Load) { l.Output.Fixed = 1 },
		"output has a":         func(l *Load) { l.Output.Max = -1 },
		"prompt, quantile 2 ":  func(l *Load) { l.Prompt = Lengths{Quantiles: []Quantile{{0, 2}, {1, 1}}} },
		"prompt does":          func(l *Load) { l.Prompt = Lengths{Quantiles: []Quantile{{0, 2}}} },
		"conversation has l":   func(l *Load) { l.Conversation.Block = 16 },
		"conversation has a n": func(l *Load) { l.Conversation = Conversation{Turns: 2, Open: -1} },
	} {
		l := some
		change(&l)
		_, err := Collect(l.Requests(1))
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
