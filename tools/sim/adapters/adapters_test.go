package adapters

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"troupe/core/lora"
	"troupe/testkit"
	"troupe/workload"
)

// minLoads tries every eviction and returns the minimum number of loads.
func minLoads(trace []workload.Request, there []string, capacity int) int {
	if len(trace) == 0 {
		return 0
	}
	if slices.Contains(there, trace[0].Adapter) {
		return minLoads(trace[1:], there, capacity)
	}
	if len(there) < capacity {
		return 1 + minLoads(trace[1:], append(slices.Clone(there), trace[0].Adapter), capacity)
	}
	best := math.MaxInt
	for i := range there {
		next := slices.Clone(there)
		next[i] = trace[0].Adapter
		best = min(best, 1+minLoads(trace[1:], next, capacity))
	}
	return best
}

// request returns a request with a prompt of ten tokens.
func request(at time.Duration, adapter string, output int) workload.Request {
	return workload.Request{At: at, Adapter: adapter, Prompt: 10, Output: output}
}

// poisson returns a load with exponential lengths.
func poisson(adapters int, rate, zipf, prompt, output float64, length time.Duration) workload.Load {
	return workload.Load{
		Length: length, Rate: rate, Adapters: workload.Names{Name: "adapter", Count: adapters, Zipf: zipf},
		Prompt: workload.Lengths{Exponential: prompt, Max: 2048},
		Output: workload.Lengths{Exponential: output, Max: 2048},
	}
}

// name returns the name of an adapter by its popularity.
func name(i int) string { return thousandAdapters.Adapters.At(i) }

// TestLoadIsTheSame checks that the loads of the page are those of all its versions: the hash was computed
// before workload generated them.
func TestLoadIsTheSame(t *testing.T) {
	h := fnv.New64a()
	for _, r := range generate(thousandAdapters, 1) {
		fmt.Fprintln(h, int64(r.At), r.Adapter, r.Prompt, r.Output)
	}
	if got := h.Sum64(); got != 0xa2aefe3dce3e9cb {
		t.Errorf("hash %#x", got)
	}
}

func TestOptimumIsMinimal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var trace []workload.Request
		for range 12 {
			trace = append(trace, workload.Request{Adapter: name(r.IntN(5))})
		}
		if got, want := optimum(trace, 2, 0), minLoads(trace, nil, 2); got != want {
			t.Fatalf("%v: %d loads, want %d", trace, got, want)
		}
		if lru(trace, 2, 0) < optimum(trace, 2, 0) {
			t.Fatalf("%v: LRU is better than the optimum", trace)
		}
	}
	abc := []workload.Request{
		{Adapter: "a"}, {Adapter: "b"}, {Adapter: "a"}, {Adapter: "c"}, {Adapter: "a"},
		{Adapter: "b", At: time.Second},
	}
	if lru(abc, 2, 0) != 4 || lru(abc, 2, time.Second) != 1 {
		t.Errorf("LRU loads %d, %d of them late", lru(abc, 2, 0), lru(abc, 2, time.Second))
	}
}

// TestOnlineBound checks that the bound equals the load rate of a cache of the most popular
// adapters.
func TestOnlineBound(t *testing.T) {
	l := poisson(50, 100, 1.2, 1, 1, 10*time.Minute)
	trace, loads, extra := generate(l, 3), 0, ""
	for _, r := range trace {
		if r.Adapter >= name(9) && r.Adapter != extra { // nine slots for the most popular, one for the others
			extra = r.Adapter
			loads++
		}
	}
	if got, want := float64(loads)/l.Length.Seconds(), online(l, 10); math.Abs(got/want-1) > 0.03 {
		t.Errorf("%.2f loads per second, the formula gives %.2f", got, want)
	}
}

var smallSetting = Setting{Model: llama7B, Rank: 8, Resident: 4, Sequences: 16, StepTokens: 512, Waiting: 100}

// TestStrategiesFinishEveryRequest checks that every strategy computes every token, and that a run
// depends only on its trace.
func TestStrategiesFinishEveryRequest(t *testing.T) {
	trace := generate(poisson(20, 20, 1.1, 50, 20, 20*time.Second), 1)
	tokens := 0
	for _, r := range trace {
		tokens += r.Output
	}
	var visible []float64
	for _, strategy := range strategies {
		s := smallSetting
		s.Policy, s.Popular = strategy.policy, strategy.popular
		r := newRun(s, trace)
		r.finish()
		o := r.outcome()
		if r.tokens != tokens || len(o.first) != len(trace) || o.Refused != 0 {
			t.Errorf(
				"%s: %d of %d tokens, %d of %d requests", strategy.name, r.tokens, tokens, len(o.first), len(trace),
			)
		}
		if o.Visible > o.Cold+1 || o.Mean <= 0 || o.P99 < o.Mean || r.loads < len(distinctOf(trace)) {
			t.Errorf("%s: %+v, %d loads", strategy.name, o.Visible, r.loads)
		}
		for i := range 20 {
			if n := r.pool.Users(name(i)); n != 0 {
				t.Errorf("%s: %d requests still hold %s", strategy.name, n, name(i))
			}
		}
		if again := simulate(s, trace); again.Mean != o.Mean || again.Loads != o.Loads {
			t.Errorf("%s: two runs have different outcomes", strategy.name)
		}
		visible = append(visible, o.Visible)
	}
	if visible[2] >= visible[1] {
		t.Errorf("prefetch hides no cold start: %v", visible)
	}
}

func distinctOf(trace []workload.Request) map[string]bool {
	var all []string
	for _, r := range trace {
		all = append(all, r.Adapter)
	}
	return distinct(all)
}

// TestColdStart checks that a first token takes a load and a step if the adapter is on disk. If
// other requests run, the step in flight hides the load.
func TestColdStart(t *testing.T) {
	s := smallSetting
	s.Policy = lora.Policy{Lookahead: 10}
	l := s.Model.Layout(s.Rank)
	cold := simulate(s, []workload.Request{request(0, "a", 1), request(time.Second, "a", 1)})
	load, step := s.Model.load(l.Bytes()), s.Model.step(10, 10, l.Bytes())
	if want := []time.Duration{step, load + step}; !slices.Equal(cold.first, want) {
		t.Errorf("first tokens after %v, want %v", cold.first, want)
	}
	if r := newRun(s, []workload.Request{request(0, "a", 1)}); r.finish() != 1 {
		t.Errorf("%d visible cold starts", r.visible)
	}
	beside := newRun(s, []workload.Request{request(0, "a", 100), request(100*time.Millisecond, "b", 1)})
	if beside.finish() != 1 {
		t.Errorf("%d visible cold starts, though a step of %s hides a load of %s", beside.visible, step, load)
	}
}

// TestFragmentation checks that pages never fail while enough bytes are free, and waste at most the
// last page of each adapter.
func TestFragmentation(t *testing.T) {
	for i, s := range memories {
		pages := s.fragment(newPaged(s.memory), 1)
		whole := s.fragment(contiguous{lora.NewFirstFit(s.memory), s.memory}, 1)
		if pages.failures != 0 || pages.external != 0 || pages.internal <= 0 {
			t.Errorf("%s %v, pages: %+v", s.Name, s.ranks, pages)
		}
		if whole.failures == 0 || whole.external <= 0 || whole.internal != 0 {
			t.Errorf("%s %v, contiguous: %+v", s.Name, s.ranks, whole)
		}
		if i == 0 && (pages.internal > 0.01 || whole.residents >= pages.residents) {
			t.Errorf("large adapters: %+v in pages, %+v in one piece", pages, whole)
		}
	}
}

// TestEvictionOrders checks that knowing the future is best, and that knowing the popularity is no
// worse than estimating it.
func TestEvictionOrders(t *testing.T) {
	trace := generate(poisson(20, 20, 1.1, 50, 20, time.Minute), 1)
	s := smallSetting
	s.Policy = strategies[2].policy
	lru, lfu, known, future := s, s, s, s
	lru.HalfLife, lfu.HalfLife, known.Order, future.Order = time.Second, time.Hour, byPopularity, byNextRequest
	l, f := simulate(lru, trace).Loads, simulate(lfu, trace).Loads
	k, n := simulate(known, trace).Loads, simulate(future, trace).Loads
	if n >= k || k > f || f >= l {
		t.Errorf("loads per second: LRU %.2f, LFU %.2f, known popularity %.2f, known future %.2f", l, f, k, n)
	}
	early := s
	early.Streamed = true
	if a, b := simulate(early, trace), simulate(s, trace); a.Visible >= b.Visible || a.Mean >= b.Mean {
		t.Errorf("after the first layer: %+v visible, %s; after all: %+v, %s", a.Visible, a.Mean, b.Visible, b.Mean)
	}
}

func TestReadTrace(t *testing.T) {
	trace, err := readTrace(testkit.Shared(t, "data/traces/arena-multilora/arena27_adapters_600s.csv"))
	if err != nil || len(trace) != 1500 || trace[0].Adapter != "dummy-lora-7b-rank-8-13" || trace[0].Output != 199 {
		t.Errorf("%d requests, %v", len(trace), err)
	}
}
