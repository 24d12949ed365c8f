package schedule

import (
	"math"
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
