package kv

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func measured(units float64, took time.Duration) (r Rate) {
	r.Add(units, took)
	return r
}

// TestRestoreDecisionIsOptimal checks that no other number of blocks takes less time in a naive
// simulation of both pipelines.
func TestRestoreDecisionIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := RestoreCost{BlockBytes: 1000, BlockTokens: 16, StepTokens: rapid.IntRange(0, 200).Draw(t, "step"),
			Prefill: measured(rapid.Float64Range(100, 100_000).Draw(t, "prefill"), time.Second)}
		for range rapid.IntRange(1, 3).Draw(t, "paths") {
			q.Paths = append(q.Paths, Path{Rate: measured(rapid.Float64Range(1000, 10_000_000).Draw(t, "rate"),
				time.Second),
				Queued: rapid.Int64Range(0, 50_000).Draw(t, "queued"), Parts: rapid.IntRange(0, 8).Draw(t, "parts")})
		}
		q.Sources = rapid.SliceOfN(rapid.IntRange(0, len(q.Paths)-1), 1, 20).Draw(t, "sources")
		q.Tokens = 16*len(q.Sources) + rapid.IntRange(1, 100).Draw(t, "rest")
		got := q.Decide()
		for n := range len(q.Sources) + 1 {
			if took := naiveRestore(q, n); took < got.Duration-time.Microsecond {
				t.Fatalf("%d blocks take %v, but the decision is %d blocks in %v", n, took, got.Blocks, got.Duration)
			}
		}
		if took := naiveRestore(q, got.Blocks); (took - got.Duration).Abs() > time.Microsecond {
			t.Fatalf("%d blocks take %v, the decision says %v", got.Blocks, took, got.Duration)
		}
	})
}

// naiveRestore simulates both pipelines part by part.
func naiveRestore(q RestoreCost, n int) time.Duration {
	var slowest float64
	parts := 8
	for p := range q.Paths {
		bytes := 0.0
		for _, s := range q.Sources[:n] {
			if s == p {
				bytes += float64(q.BlockBytes)
			}
		}
		if bytes > 0 {
			slowest = max(slowest, (bytes+float64(q.Paths[p].Queued))/q.Paths[p].Rate.PerSecond())
			parts = min(parts, max(1, q.Paths[p].Parts))
		}
	}
	tokens := q.Tokens - n*q.BlockTokens
	first := tokens
	if q.StepTokens > 0 {
		first = min(first, q.StepTokens)
	}
	step := float64(first) / q.Prefill.PerSecond()
	var restored, prefilled float64
	for range parts {
		restored += slowest / float64(parts)
		prefilled = max(prefilled, restored) + step/float64(parts)
	}
	prefilled += float64(tokens-first) / q.Prefill.PerSecond()
	return time.Duration(prefilled * float64(time.Second))
}

func TestRestoreDecisions(t *testing.T) {
	fast, slow := Path{Name: "dram", Rate: measured(1e6, time.Second)},
		Path{Name: "nvme", Rate: measured(10, time.Second)}
	prefill := measured(160, time.Second) // 0.1 s per block
	for name, tc := range map[string]struct {
		q    RestoreCost
		want int
		why  string
	}{
		"no lower tier": {RestoreCost{Paths: []Path{fast}, Prefill: prefill, Tokens: 100}, 0, "no lower tier"},
		"fast": {RestoreCost{Sources: []int{0, 0}, Paths: []Path{fast}, Prefill: prefill,
			Tokens: 33}, 2, "restoring 2 of 2 blocks"},
		"too slow": {RestoreCost{Sources: []int{0, 0}, Paths: []Path{slow}, Prefill: prefill,
			Tokens: 33}, 0, "restoring 0 of 2 blocks"},
		"stops at the slow tier": {RestoreCost{Sources: []int{0, 1}, Paths: []Path{fast, slow}, Prefill: prefill,
			Tokens: 33}, 1, "restoring 1 of 2 blocks"},
		"long queue": {RestoreCost{Sources: []int{0}, Paths: []Path{{Rate: fast.Rate, Queued: 1e6}},
			Prefill: prefill, Tokens: 17}, 0, "recomputing all 17 tokens"},
		"unmeasured path": {RestoreCost{Sources: []int{0, 0}, Paths: []Path{{Name: "dram"}}, Prefill: prefill,
			Tokens: 33}, 1, "not measured"},
		"unmeasured prefill": {RestoreCost{Sources: []int{0, 0}, Paths: []Path{fast}, Tokens: 33}, 2,
			"prefill rate not measured"},
		"fast, then unmeasured": {RestoreCost{Sources: []int{0, 1}, Paths: []Path{fast, {Name: "remote"}},
			Prefill: prefill, Tokens: 33}, 2, "remote"},
	} {
		tc.q.BlockBytes, tc.q.BlockTokens = 100, 16
		if got := tc.q.Decide(); got.Blocks != tc.want || !strings.Contains(got.Why, tc.why) {
			t.Errorf("%s: %+v, want %d blocks, %q", name, got, tc.want, tc.why)
		}
	}
}

func TestRateFollowsChanges(t *testing.T) {
	var r Rate
	if _, ok := r.Time(1); ok || r.PerSecond() != 0 {
		t.Error("an unmeasured rate returns a value")
	}
	r.Add(0, time.Second)
	r.Add(100, 0)
	for range 100 {
		r.Add(100, time.Second)
	}
	if got := r.PerSecond(); got < 99.9 || got > 100.1 {
		t.Errorf("%f per second, want 100", got)
	}
	for range 50 {
		r.Add(100, 10*time.Second)
	}
	if got := r.PerSecond(); got < 10 || got > 12 {
		t.Errorf("%f per second after becoming ten times slower", got)
	}
}

// TestDecayedRateIsTriedAgain checks that a path avoided because of one slow measurement is
// eventually tried again.
func TestDecayedRateIsTriedAgain(t *testing.T) {
	q := RestoreCost{Sources: []int{0, 0}, Paths: []Path{{Name: "nvme"}}, BlockBytes: 1000, BlockTokens: 16, Tokens: 40}
	q.Prefill.Add(40, time.Second)
	q.Paths[0].Rate.Add(1000, 4*time.Second)
	avoided := 0
	for ; q.Decide().Blocks == 0 && avoided < 1000; avoided++ {
		q.Paths[0].Rate.Decay()
	}
	if avoided < 50 || avoided > 300 {
		t.Errorf("tried again after being avoided %d times", avoided)
	}
}
