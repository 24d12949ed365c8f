package schedule

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestLightLoadIsLearned checks that the times of a model with little load are learned, and those of one with
// much load are not.
func TestLightLoadIsLearned(t *testing.T) {
	v := view{memory: &ModelMemory{}, options: Options{}.withDefaults(), up: 1, now: began}
	v.Demand = Demand{Places: 10, Running: 1, Rate: 1, TTFT: 400 * time.Millisecond, TPOT: 20 * time.Millisecond}
	pass := func() {
		for range 3 {
			v.now = v.now.Add(time.Minute)
			v.learn()
		}
	}
	v.learn()
	for range 2 {
		pass()
		ttft, known := v.memory.Learned.TTFT.value()
		tpot, both := v.memory.Learned.TPOT.value()
		if !known || !both || math.Abs(ttft-0.4) > 1e-9 || math.Abs(tpot-0.02) > 1e-9 {
			t.Errorf("%g s, known: %t; %g s, known: %t", ttft, known, tpot, both)
		}
		v.Demand.Running, v.Demand.TTFT, v.Demand.TPOT = 10, 4*time.Second, time.Second
	}
}

// TestMissesMustLast checks that an SLO that few requests miss counts as missed only if it was missed for a second
// window without interruption.
func TestMissesMustLast(t *testing.T) {
	v := view{memory: &ModelMemory{}, options: Options{}.withDefaults(), now: began}
	for i, c := range []struct {
		after           time.Duration
		missed, certain bool
	}{
		{0, true, false}, {time.Minute - time.Second, true, false}, {time.Second, true, true},
		{time.Second, false, false}, {time.Second, true, false}, {time.Minute, true, true},
	} {
		v.now = v.now.Add(c.after)
		if got := v.certain(c.missed); got != c.certain {
			t.Errorf("%d: %s after the begin, missed %t: certain %t", i, v.now.Sub(began), c.missed, got)
		}
	}
}

// TestProfileOfPool checks how many replicas serve a rate by their profile: those known, and more in proportion.
func TestProfileOfPool(t *testing.T) {
	d := Demand{Capacities: []float64{1, 2.5, 4}}
	for _, c := range []struct {
		rate float64
		want int
	}{{0, 1}, {1, 1}, {1.1, 2}, {2.5, 2}, {4, 3}, {4.1, 4}, {8, 6}, {8.1, 7}} {
		got := d.replicasFor(c.rate)
		if got != c.want {
			t.Errorf("%g requests/s: %d replicas, want %d", c.rate, got, c.want)
		}
		if d.serves(got) < c.rate-1e-9 || got > 1 && d.serves(got-1) >= c.rate {
			t.Errorf("%d serve %g requests/s, and %d serve %g", got-1, d.serves(got-1), got, d.serves(got))
		}
	}
	if none := (Demand{}); none.profiled() || none.serves(3) != 0 {
		t.Error("a model without a profile has one")
	}
}

// TestMeasuredSLOCounts checks that a profile by which there are too few replicas does not count while the requests of
// a window without a change were within the SLO.
func TestMeasuredSLOCounts(t *testing.T) {
	const met, missed = 150 * time.Millisecond, 250 * time.Millisecond
	rate := func(rate float64) func(*view) {
		return func(v *view) {
			v.Demand.Rate, v.Demand.Recent, v.Demand.Capacities = rate, rate, []float64{0.1, 0.2, 0.4}
		}
	}
	for name, c := range map[string]struct {
		change func(*view)
		want   int
	}{
		"met":                {func(*view) {}, 0},
		"no SLO of the TPOT": {func(v *view) { v.SLO.TPOT, v.Demand.TPOT = 0, -1 }, 0},
		"TTFT missed":        {func(v *view) { v.Demand.TTFT = missed }, 3},
		"TPOT missed":        {func(v *view) { v.Demand.TPOT = missed }, 3},
		"unknown":            {func(v *view) { v.Demand.TTFT = -1 }, 3},
		"sequences wait":     {func(v *view) { v.Demand.Waiting = 1 }, 3},
		"none serves":        {func(v *view) { v.Demand.Pending = 1 }, 3},
		"the rate rises": {func(v *view) {
			v.Demand.Rate, v.Demand.Recent, v.Demand.Capacities = 30, 40, []float64{10, 25, 40}
		}, 3},
		"one starts":          {func(v *view) { v.up = 1 }, 3},
		"one is new":          {func(v *view) { v.settled = v.now.Add(-v.options.Window + time.Second) }, 3},
		"few requests":        {rate(0.33), 3},
		"few, but enough":     {rate(0.34), 0},
		"enough by a profile": {func(v *view) { v.Demand.TTFT, v.Demand.Rate = -1, 2.5 }, 0},
	} {
		v := view{Model: Model{SLO: SLO{TTFT: 200 * time.Millisecond, TPOT: 200 * time.Millisecond},
			Demand: Demand{Rate: 3, Recent: 3, TTFT: met, TPOT: met, Capacities: []float64{1, 2.5, 4}}},
			memory: &ModelMemory{}, options: Options{}.withDefaults(), have: 2, up: 2, now: began.Add(time.Hour),
			settled: began}
		c.change(&v)
		if got, why := v.tooFew(); got != c.want || got > 0 != strings.Contains(why, "by the profile") {
			t.Errorf("%s: %d replicas, want %d: %s", name, got, c.want, why)
		}
	}
}

// TestProfileIsNoChance checks that the profile asks for no more replicas if the window's arrival rate may exceed
// the average of several minutes only by chance, and that it allows one fewer only if the remaining ones would
// serve 1.1 times the rate.
func TestProfileIsNoChance(t *testing.T) {
	for _, c := range []struct {
		rate, carries float64
		more, fewer   bool // than 2 replicas
	}{
		{2.4, 2.5, false, false}, {2.7, 2.5, false, false}, {3, 2.5, true, false},
		{0.9, 2.5, false, true}, {0.95, 2.5, false, false}, {1.1, 2.5, false, false},
	} {
		v := view{Model: Model{Min: 1, SLO: SLO{TTFT: time.Second}, Demand: Demand{Rate: c.rate, Recent: c.rate,
			TTFT: -1, TPOT: -1, KV: -1, Capacities: []float64{1, c.carries, 4}}}, memory: &ModelMemory{},
			options: Options{}.withDefaults(), have: 2, up: 2, now: began}
		v.memory.Learned.Rate.add(min(c.rate, 2.4), 10*time.Minute)
		n, _ := v.tooFew()
		why := v.needed(1)
		if n > 2 != c.more || (why == "") != c.fewer {
			t.Errorf("%g requests/s: %d replicas; one fewer: %q", c.rate, n, why)
		}
	}
}
