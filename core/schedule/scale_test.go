package schedule

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestScale(t *testing.T) {
	const second = time.Second
	at := func(n int) Load { return Load{Want: n, Serving: n, Places: 10 * n, KVBlocks: 100 * n, KVFree: 100 * n} }
	with := func(l Load, change func(*Load)) Load { change(&l); return l }
	busy := func(n int) Load { return with(at(n), func(l *Load) { l.Running = 9 * n }) }
	type observed struct {
		after time.Duration // time since the last observation
		load  Load
		want  int
		why   string // a substring
	}
	for name, steps := range map[string][]observed{
		"scales up once the load was too high": {
			{0, busy(2), 2, "90% of the places in use"}, {4 * second, busy(2), 2, ""},
			{second, busy(2), 3, "90% of the places in use for 5s"}, {second, busy(3), 3, "ended 1s ago"},
		},
		"a lower load restarts the wait": {
			{0, busy(2), 2, ""}, {4 * second, with(at(2), func(l *Load) { l.Running = 14 }), 2, "70%"},
			{second, busy(2), 2, ""}, {5 * second, busy(2), 3, ""},
		},
		"not above the maximum": {{0, busy(4), 4, ""}, {9 * second, busy(4), 4, "already the maximum"}},
		"KV blocks count": {
			{0, with(at(1), func(l *Load) { l.KVFree = 5 }), 1, ""},
			{5 * second, with(at(1), func(l *Load) { l.KVFree = 5 }), 2, "95% of the KV blocks in use for 5s"},
		},
		"a queue although there are places": {
			{0, with(at(1), func(l *Load) { l.Running, l.Waiting = 2, 2 }), 1, ""},
			{
				5 * second, with(at(1), func(l *Load) { l.Running, l.Waiting = 2, 2 }), 2,
				"2 sequences wait for 10 places for 5s",
			},
		},
		"scales down once the load was low": {
			{0, at(3), 3, "0% of the places in use"}, {59 * second, at(3), 3, ""}, {second, at(3), 2, "for 1m0s"},
		},
		"not below the minimum": {{0, at(1), 1, ""}, {99 * second, at(1), 1, "already the minimum"}},
		"the remaining replicas decide": {
			{0, with(at(3), func(l *Load) { l.Running = 13 }), 3, "43%"},
			{99 * second, with(at(3), func(l *Load) { l.Running = 13 }), 3, "43%"},
			{0, with(at(3), func(l *Load) { l.Running = 11 }), 3, ""},
			{60 * second, with(at(3), func(l *Load) { l.Running = 11 }), 2, ""},
		},
		"no decision during a change": {
			{0, busy(2), 2, ""},
			{9 * second, with(busy(2), func(l *Load) { l.Changing = true }), 2, "change"},
			{9 * second, with(busy(2), func(l *Load) { l.Serving = 1 }), 2, "1 of 2 serve"},
		},
		"cool-down": {
			{0, with(busy(2), func(l *Load) { l.Changing = true }), 2, ""}, {second, busy(2), 2, "ended 1s ago"},
			{28 * second, busy(2), 2, "ended 29s ago"}, {second, busy(2), 3, ""},
		},
		"bounds apply at once": {{0, at(9), 4, "9 is not between 1 and 4"}, {0, at(0), 0, "stopped"}},
		"not below the capacity seen while sequences queued": {
			{0, with(at(1), func(l *Load) { l.Running, l.Waiting, l.TokenRate = 2, 2, 1000 }), 1, ""},
			{5 * second, with(at(1), func(l *Load) { l.Running, l.Waiting, l.TokenRate = 2, 2, 1000 }), 2, ""},
			{
				30 * second, with(at(2), func(l *Load) { l.Running, l.TokenRate = 3, 1100 }), 2,
				"15% of the places in use, but 1100 tokens/s are too many for 1 replica",
			},
			{99 * second, with(at(2), func(l *Load) { l.Running, l.TokenRate = 3, 1100 }), 2, ""},
			{second, with(at(2), func(l *Load) { l.Running, l.TokenRate = 3, 500 }), 2, ""},
			{60 * second, with(at(2), func(l *Load) { l.Running, l.TokenRate = 3, 500 }), 1, ""},
		},
	} {
		s, now := NewScaler(Scaling{MinReplicas: 1, MaxReplicas: 4}), time.Unix(0, 0)
		for i, o := range steps {
			now = now.Add(o.after)
			if want, why := s.Scale(now, o.load); want != o.want || why == "" || !strings.Contains(why, o.why) {
				t.Errorf("%s, observation %d: %d, %q; want %d, %q", name, i, want, why, o.want, o.why)
			}
		}
	}
}

// TestScaleSettles holds the offered load constant: a number of open sequences, and a number of
// tokens per second of which a replica computes what it can. The number of replicas changes in
// steps of one and stays within its bounds. After it went up it never goes down, and it does not
// change while a change is in progress.
func TestScaleSettles(t *testing.T) {
	const able, places = 1000.0, 16 // per replica
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(1, 4).Draw(t, "low")
		high := low + rapid.IntRange(0, 8).Draw(t, "more")
		open, asked := rapid.IntRange(0, 150).Draw(t, "open"), rapid.Float64Range(0, 12000).Draw(t, "tokens per second")
		carry := rapid.IntRange(0, 10).Draw(t, "observations per change")
		s, now := NewScaler(Scaling{MinReplicas: low, MaxReplicas: high}), time.Unix(0, 0)
		want := rapid.IntRange(low, high).Draw(t, "first")
		serving, left, up := want, 0, false
		for i := range 1800 {
			now = now.Add(2 * time.Second)
			l := Load{
				Want: want, Serving: serving, Changing: left > 0, Places: places * serving,
				TokenRate: min(asked, able*float64(serving)),
			}
			l.Running = min(open, l.Places)
			l.Waiting = open - l.Running
			if asked > l.TokenRate { // the device is the limit: sequences queue although there are places
				l.Waiting = max(l.Waiting, l.Places/4)
			}
			next, why := s.Scale(now, l)
			step := next - want
			switch {
			case next < low || next > high:
				t.Fatalf("%d is not between %d and %d: %s", next, low, high, why)
			case l.Changing && step != 0:
				t.Fatalf("%d to %d while a change is in progress: %s", want, next, why)
			case step < -1 || step > 1:
				t.Fatalf("%d to %d at once: %s", want, next, why)
			case step < 0 && up:
				t.Fatalf("back from %d to %d under constant load: %s", want, next, why)
			case step != 0 && i > 900:
				t.Fatalf("%d to %d after half an hour of constant load: %s", want, next, why)
			}
			want, up = next, up || step > 0
			switch {
			case step != 0:
				left = carry
			case left > 0:
				left--
			}
			if left == 0 {
				serving = want
			}
		}
	})
}

// TestIdle checks that a deployment sleeps after IdleAfter without a request, and that a running
// request, computed tokens and an unknown rate of tokens count as a request.
func TestIdle(t *testing.T) {
	s := NewScaler(Scaling{MaxReplicas: 3, IdleAfter: 10 * time.Second})
	now := time.Unix(1000, 0)
	pass := func(seconds int, l Load) (want int) {
		l.Want, l.Serving, l.Places = 1, 1, 10
		for range seconds {
			now = now.Add(time.Second)
			if want, _ = s.Scale(now, l); want == 0 {
				break
			}
		}
		return want
	}
	for _, l := range []Load{{TokenRate: -1}, {Running: 1}, {Waiting: 1}, {TokenRate: 3}, {Changing: true}} {
		if want := pass(30, l); want != 1 {
			t.Errorf("%+v: %d replicas", l, want)
		}
		if want := pass(10, Load{}); want != 1 {
			t.Errorf("10 s after %+v: %d replicas", l, want)
		}
	}
	if want := pass(1, Load{}); want != 0 {
		t.Errorf("after 10 s without a request: %d replicas", want)
	}
	if s = NewScaler(Scaling{MaxReplicas: 3}); pass(1000, Load{}) != 1 {
		t.Error("it sleeps without idle_after")
	}
}
