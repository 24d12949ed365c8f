package kv

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// simulateOverlap simulates a step that starts now, part by part. each is the number of seconds per
// part. It returns the time spent waiting for parts and the duration of the step.
func simulateOverlap(q OverlapEstimate, each float64) (waited, took float64) {
	compute := float64(q.Tokens) / q.Prefill.PerSecond() / float64(q.Parts)
	for part := range q.Parts {
		if arrives := float64(part-q.Arrived+1) * each; arrives > took {
			waited += arrives - took
			took = arrives
		}
		took += compute
	}
	return waited, took
}

// TestOverlapStartsAsSoonAsNoLayerWaits checks that a step starts exactly when no layer has to
// wait. Started at the first possible part, it ends at most one part later than a pipelined step
// that started at once and waited.
func TestOverlapStartsAsSoonAsNoLayerWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := OverlapEstimate{Parts: rapid.IntRange(1, 32).Draw(t, "parts"),
			Tokens:  rapid.IntRange(1, 500).Draw(t, "tokens"),
			Prefill: measured(rapid.Float64Range(100, 100_000).Draw(t, "prefill"), time.Second)}
		each := time.Duration(rapid.Int64Range(1000, 1e9).Draw(t, "each"))
		way := time.Duration(rapid.SampledFrom([]int64{0, 0, 1000, 1e9}).Draw(t, "before the first"))
		late := 1 // parts
		if way > 0 {
			late = 2 // the first part alone does not reveal the rate
		}
		q.FirstAfter = way + each
		for q.Arrived = 1; ; q.Arrived++ {
			q.Elapsed = way + time.Duration(q.Arrived)*each
			got := q.Decide()
			waited, took := simulateOverlap(q, each.Seconds())
			if got.Start && waited > 1e-9 || !got.Start && waited == 0 && q.Arrived >= late {
				t.Fatalf("with %d of %d parts: %+v, but it would wait for %v s", q.Arrived, q.Parts, got, waited)
			}
			if !got.Start {
				continue
			}
			atOnce := way.Seconds() + pipelined(each.Seconds()*float64(q.Parts),
				float64(q.Tokens)/q.Prefill.PerSecond(), q.Parts)
			if ends := took + q.Elapsed.Seconds(); ends > atOnce+float64(late)*each.Seconds()+1e-6 {
				t.Fatalf("started with %d of %d parts, the step ends after %v s; started at once, after %v s",
					q.Arrived, q.Parts, ends, atOnce)
			}
			return
		}
	})
}

func TestOverlapDecisions(t *testing.T) {
	prefill := measured(1000, time.Second)
	for name, tc := range map[string]struct {
		q    OverlapEstimate
		want bool
		left time.Duration
	}{
		"no part arrived":   {OverlapEstimate{Parts: 4, Tokens: 1000, Prefill: prefill}, false, 0},
		"all parts arrived": {OverlapEstimate{Parts: 4, Arrived: 4, Elapsed: time.Second, Tokens: 1}, true, 0},
		"unmeasured prefill": {OverlapEstimate{Parts: 4, Arrived: 3, FirstAfter: time.Millisecond,
			Elapsed: 3 * time.Millisecond, Tokens: 1000}, false, time.Millisecond},
		"long prefill": {OverlapEstimate{Parts: 4, Arrived: 1, Elapsed: 10 * time.Millisecond,
			Tokens: 1000, Prefill: prefill}, true, 30 * time.Millisecond},
		"short prefill, early": {OverlapEstimate{Parts: 4, Arrived: 1, Elapsed: 10 * time.Millisecond, Tokens: 10,
			Prefill: prefill}, false, 30 * time.Millisecond},
		"short prefill, last part": {OverlapEstimate{Parts: 4, Arrived: 3, FirstAfter: 7 * time.Millisecond,
			Elapsed: 21 * time.Millisecond, Tokens: 10, Prefill: prefill}, true, 7 * time.Millisecond},
		"high latency": {OverlapEstimate{Parts: 4, Arrived: 2, FirstAfter: time.Second,
			Elapsed: 1001 * time.Millisecond, Tokens: 10, Prefill: prefill}, true, 2 * time.Millisecond},
	} {
		if got := tc.q.Decide(); got.Start != tc.want || got.Remaining != tc.left || got.Why == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestParts(t *testing.T) {
	for _, tc := range []struct{ block, layers, least, want int }{
		{48 << 10, 6, 256 << 10, 1},
		{1536 << 10, 6, 256 << 10, 6},
		{4 << 20, 32, 256 << 10, 16},
		{10 << 20, 80, 1 << 20, 10},
		{10 << 20, 80, 3 << 20, 3},
		{1 << 20, 6, 1, 6},
		{7 << 20, 7, 2 << 20, 3},
		{100, 0, 0, 1},
	} {
		if got := Parts(tc.block, tc.layers, tc.least); got != tc.want {
			t.Errorf(
				"%d bytes, %d layers: got %d parts of at least %d, want %d",
				tc.block,
				tc.layers,
				got,
				tc.least,
				tc.want,
			)
		}
	}
}
