package restart

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1e9, 0)

// TestFail checks the decisions listed in doc.go, failure by failure.
func TestFail(t *testing.T) {
	type failure struct {
		after     time.Duration // time since the previous failure
		permanent bool
		want      Decision
	}
	restart := func(delay time.Duration) Decision { return Decision{Restart, delay} }
	for name, failures := range map[string][]failure{
		"in a row": {
			{0, false, restart(0)}, {time.Second, false, restart(50 * time.Millisecond)},
			{time.Second, false, restart(200 * time.Millisecond)}, {time.Second, false, Decision{Action: Stop}},
		},
		"started again": {
			{0, false, restart(0)}, {0, true, Decision{Action: Stop}}, {0, false, restart(0)},
		},
		"just within the window": {
			{0, false, restart(0)}, {Window - 1, false, restart(50 * time.Millisecond)},
		},
		"after the window": {{0, false, restart(0)}, {Window, false, restart(0)}},
		"slowly": {
			{0, false, restart(0)}, {Window / 2, false, restart(50 * time.Millisecond)},
			{Window / 2, false, restart(50 * time.Millisecond)}, {Window / 2, false, restart(50 * time.Millisecond)},
		},
		"device lost": {{0, true, Decision{Action: Stop}}},
	} {
		h, now := History{}, epoch
		for i, f := range failures {
			now = now.Add(f.after)
			if got := h.Fail(now, f.permanent); got != f.want {
				t.Errorf("%s: failure %d: %v after %v, want %v after %v", name, i+1, got.Action, got.Delay,
					f.want.Action, f.want.Delay)
			}
		}
	}
}

// TestBackoffGrows checks that the delay grows and stays within minutes.
func TestBackoffGrows(t *testing.T) {
	if Backoff(1) != 0 || Backoff(2) <= 0 || Backoff(3) <= Backoff(2) || Backoff(100) > time.Hour {
		t.Errorf("%v, %v, %v, %v", Backoff(1), Backoff(2), Backoff(3), Backoff(100))
	}
}

// TestInvariants checks the invariants of doc.go with failures at random times.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h History
		var counted []time.Time // failures since the last stop
		now, last := epoch, Decision{}
		for range rapid.IntRange(1, 30).Draw(t, "failures") {
			gap := time.Duration(rapid.IntRange(0, 20).Draw(t, "s")) * time.Second
			now = now.Add(gap)
			permanent := rapid.IntRange(0, 9).Draw(t, "permanent") == 0
			wasFresh := len(counted) == 0
			counted = append(counted, now)
			within := 0
			for _, f := range counted {
				if now.Sub(f) < Window {
					within++
				}
			}
			got := h.Fail(now, permanent)
			switch {
			case permanent && got.Action != Stop:
				t.Fatal("permanent: restarted")
			case within >= 4 && got.Action != Stop:
				t.Fatalf("bounded: restarted after %d failures within %v", within, Window)
			case !permanent && within < 4 && got.Action == Stop:
				t.Fatalf("forgotten: stopped after %d failures within %v", within, Window)
			case wasFresh && !permanent && got.Delay != 0:
				t.Fatalf("fresh: the first restart waits for %v", got.Delay)
			case within == 1 && got.Delay != 0:
				t.Fatalf("forgotten: the only failure within %v is followed by a delay of %v", Window, got.Delay)
			case got.Action == Restart && within > 1 && gap == 0 && got.Delay <= last.Delay:
				t.Fatalf("growing: a delay of %v after one of %v", got.Delay, last.Delay)
			}
			if last = got; got.Action == Stop {
				counted, last = nil, Decision{}
				if !h.Empty(now) {
					t.Fatal("fresh: failures count after the stop")
				}
			} else if h.Empty(now) || !h.Empty(now.Add(Window)) {
				t.Fatal("forgotten: Empty is wrong")
			}
		}
	})
}
