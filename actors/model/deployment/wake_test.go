package deployment_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
)

// TestWakesAreReported checks that a wake of a parked deployment is reported once it is stored, and the time from
// it to the first replica that serves; but neither a wake that was not stored, nor the time of one that an
// operator undid.
func TestWakesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		var stored error
		s.storeLevel, s.sleeps = func() error { return stored }, true
		s.start(1)
		park := func() { s.level = messages.Level_LEVEL_PARKED; s.apply(1) }
		activate := func() { s.level = messages.Level_LEVEL_UNSPECIFIED; s.apply(1) }
		request := func() {
			s.router.Send(s.pid, &messages.WakeModel{Name: "m", Node: "a", Waiting: 1, Wakes: 1, Revision: s.revision})
			s.pass(3 * time.Second)
		}
		expect := func(what string, woken int, awake ...time.Duration) {
			t.Helper()
			if s.woken != woken || !slices.Equal(s.awake, awake) {
				t.Errorf("%s: %d wakes, awake after %v; want %d, %v", what, s.woken, s.awake, woken, awake)
			}
		}
		park()
		stored = errors.New("no quorum")
		request()
		activate()
		expect("an operator's start after a wake that was not stored", 0)
		park()
		stored = nil
		request()
		expect("a stored wake", 1)
		activate()
		if len(s.awake) != 1 || s.awake[0] < 3*time.Second || s.awake[0] > 5*time.Second {
			t.Errorf("awake after %v", s.awake)
		}
		first := s.awake
		park()
		request()
		expect("another wake", 2, first...)
		park()
		activate()
		expect("an operator's start after an undone wake", 2, first...)
	})
}
