package kv

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stalls is how long a step that begins now waits for parts that take so many seconds each, and how long it takes with that, by running both part by part.
func stalls(q BeginQuestion, each float64) (waited, took float64) {
	compute := float64(q.Tokens) / q.Prefill.PerSecond() / float64(q.Parts)
	for part := range q.Parts {
		if arrives := float64(part-q.Came+1) * each; arrives > took {
			waited += arrives - took
			took = arrives
		}
		took += compute
	}
	return waited, took
}

// TestBeginIsNeitherEarlyNorLate: a step begins exactly where no layer waits; and where it begins at the first part at which it may, it ends no more than one
// part later than the step of a pipeline that began at once and waited.
func TestBeginIsNeitherEarlyNorLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := BeginQuestion{Parts: rapid.IntRange(1, 32).Draw(t, "parts"), Tokens: rapid.IntRange(1, 500).Draw(t, "tokens"),
			Prefill: measured(rapid.Float64Range(100, 100_000).Draw(t, "prefill"), time.Second)}
		each := time.Duration(rapid.Int64Range(1000, 1e9).Draw(t, "each"))
		way := time.Duration(rapid.SampledFrom([]int64{0, 0, 1000, 1e9}).Draw(t, "before the first"))
		late := 1 // parts
		if way > 0 {
			late = 2 // one part says nothing of the others
		}
		q.First = way + each
		for q.Came = 1; ; q.Came++ {
			q.Took = way + time.Duration(q.Came)*each
			got := q.Choose()
			waited, took := stalls(q, each.Seconds())
			if got.Begin && waited > 1e-9 || !got.Begin && waited == 0 && q.Came >= late {
				t.Fatalf("with %d of %d parts: %+v, and it would wait for %v s", q.Came, q.Parts, got, waited)
			}
			if !got.Begin {
				continue
			}
			atOnce := way.Seconds() + pipelined(each.Seconds()*float64(q.Parts), float64(q.Tokens)/q.Prefill.PerSecond(), q.Parts)
			if ends := took + q.Took.Seconds(); ends > atOnce+float64(late)*each.Seconds()+1e-6 {
				t.Fatalf("with %d of %d parts it ends after %v s; at once, after %v", q.Came, q.Parts, ends, atOnce)
			}
			return
		}
	})
}

func TestBeginChoices(t *testing.T) {
	prefill := measured(1000, time.Second)
	for name, tc := range map[string]struct {
		q    BeginQuestion
		want bool
		left time.Duration
	}{
		"nothing came":         {BeginQuestion{Parts: 4, Tokens: 1000, Prefill: prefill}, false, 0},
		"all came":             {BeginQuestion{Parts: 4, Came: 4, Took: time.Second, Tokens: 1}, true, 0},
		"no prefill was seen":  {BeginQuestion{Parts: 4, Came: 3, First: time.Millisecond, Took: 3 * time.Millisecond, Tokens: 1000}, false, time.Millisecond},
		"a long prefill":       {BeginQuestion{Parts: 4, Came: 1, Took: 10 * time.Millisecond, Tokens: 1000, Prefill: prefill}, true, 30 * time.Millisecond},
		"a short prefill":      {BeginQuestion{Parts: 4, Came: 1, Took: 10 * time.Millisecond, Tokens: 10, Prefill: prefill}, false, 30 * time.Millisecond},
		"a short one, at last": {BeginQuestion{Parts: 4, Came: 3, First: 7 * time.Millisecond, Took: 21 * time.Millisecond, Tokens: 10, Prefill: prefill}, true, 7 * time.Millisecond},
		"a long way":           {BeginQuestion{Parts: 4, Came: 2, First: time.Second, Took: 1001 * time.Millisecond, Tokens: 10, Prefill: prefill}, true, 2 * time.Millisecond},
	} {
		if got := tc.q.Choose(); got.Begin != tc.want || got.Left != tc.left || got.Why == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
