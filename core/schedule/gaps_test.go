package schedule

import (
	"testing"
	"time"
)

// quiet lets a time without a request pass, with a plan every 10 s, and then comes a request.
func (g *Gaps) quiet(now *time.Time, length time.Duration) {
	last := *now
	for end := now.Add(length); now.Before(end); *now = now.Add(10 * time.Second) {
		g.see(*now, last)
	}
	g.see(*now, *now)
}

// expects checks the expected time until the next request at an age of a gap.
func (g Gaps) expects(t *testing.T, now time.Time, age, want time.Duration) {
	t.Helper()
	last := now
	for end := now.Add(age); now.Before(end); {
		now = now.Add(10 * time.Second)
		g.see(now, last)
	}
	if next, known := g.next(now); !known || next.Round(time.Second) != want {
		t.Errorf("after %s without a request: next in %s (known: %v), want %s", age, next, known, want)
	}
}

// TestGaps checks that the expected time until the next request depends on how long there was none.
func TestGaps(t *testing.T) {
	now := began
	g := Gaps{}
	g.see(now, now)
	if _, known := g.next(now.Add(20 * time.Second)); known {
		t.Error("a gap of 20 s counts")
	}
	g.expects(t, now, time.Minute, time.Minute) // as long again
	for range 20 {
		g.quiet(&now, 100*time.Second)
		g.quiet(&now, 20*time.Second)
	}
	g.expects(t, now, 40*time.Second, 69*time.Second)   // (20 · 70 s + 10 s + 30 s) / 21
	g.expects(t, now, 70*time.Second, 41*time.Second)   // (20 · 40 s + 10 s + 60 s) / 21
	g.expects(t, now, 200*time.Second, 200*time.Second) // longer than any before
	for range 20 {
		g.quiet(&now, 1000*time.Second)
	}
	// (14,280 s + 10 s + 30 s) / 25: after 12 of these gaps, those until then count half
	g.expects(t, now, 40*time.Second, 573*time.Second)
}

// TestQuietModelsKeepTheirPlaces checks that a model without requests keeps its place while those of another
// one may wait and its own next one is likely to come before, and no longer.
func TestQuietModelsKeepTheirPlaces(t *testing.T) {
	const wait, each = 10 * time.Minute, 180
	for _, test := range []struct {
		name        string
		wakeWait    time.Duration
		priority    Priority // of B
		stopped     int      // seconds since A has had no request any longer
		least, most time.Duration
	}{
		{"it may wait", wait, Standard, 0, wait - loadTime - likely*each*time.Second, wait},
		{"it may not wait", 0, Standard, 0, loadTime, loadTime + time.Second},
		{"a higher priority", wait, High, 0, loadTime, loadTime + time.Second},
		{"A is not used any longer", wait, Standard, 6 * 3600, loadTime, loadTime + time.Second},
	} {
		s := newSlot(wait, "A", "B")
		s.model("B").WakeWait, s.model("B").Priority = test.wakeWait, test.priority
		s.model("A").IdleAfter = 24 * time.Hour
		asked := 40 * each // the last request of A, unless it goes on
		for i := range asked + 100 + test.stopped {
			if i%each == 0 && i <= asked {
				s.second("A")
			} else {
				s.second()
			}
		}
		s.second("B")
		for i := range 1200 {
			if test.stopped == 0 && (i+101)%each == 0 {
				s.second("A")
			} else {
				s.second()
			}
		}
		if waited := s.waited["B"]; waited < test.least || waited > test.most {
			t.Errorf("%s: B has waited for %s, want %s to %s", test.name, waited, test.least, test.most)
		}
		if s.waited["A"] > wait {
			t.Errorf("%s: A has waited for %s", test.name, s.waited["A"])
		}
		if len(s.refused) > 0 {
			t.Errorf("%s: %v do not wait", test.name, s.refused)
		}
	}
}

// TestNextRequestDecides checks that of two models without requests the one leaves whose next request is expected
// later, although its last one is not as long ago as that of the other.
func TestNextRequestDecides(t *testing.T) {
	s := newSlot(0, "A", "B", "C")
	s.Devices = append(s.Devices, Device{Name: "a/gpu-1", Node: "a", Memory: 40 * gib, Utilization: -1})
	at := func(second int) (arrivals []string) {
		if second%3600 < 300 && second%15 == 0 { // five minutes of each hour
			arrivals = append(arrivals, "C")
		}
		if second%480 == 0 {
			arrivals = append(arrivals, "A")
		}
		return arrivals
	}
	end := 5*3600 + 420 // C has had none for 2 minutes, and A for 3
	for second := range end {
		s.second(at(second)...)
	}
	s.second(append(at(end), "B")...)
	for range 10 {
		s.second()
	}
	if s.waited["B"] != loadTime || s.loads != 3 {
		t.Fatalf("B has waited for %s, with %d loads", s.waited["B"], s.loads)
	}
	for _, r := range s.Replicas {
		if r.Model == "C" {
			t.Error("A has left, and gets a request in 5 minutes")
		}
	}
}
