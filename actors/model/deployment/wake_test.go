package deployment_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
)

// TestWakesAreReported checks that a wake is reported once it is stored, and the time from it to the
// first replica that serves; but neither a wake that was not stored, nor the time of one that an
// operator undid.
func TestWakesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		var stored error
		s.scale = func() error { return stored }
		s.start(1)
		revision := uint64(0)
		apply := func(replicas uint32) {
			revision++
			s.router.Send(s.pid, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{
				Name: "m", Path: "p", BlockTokens: new(uint32(16)),
				Replicas: new(replicas), MinReplicas: new(uint32(0)), MaxReplicas: new(uint32(1)),
			}, Revision: revision})
			s.pass(10 * time.Second)
		}
		request := func() {
			s.router.Send(s.pid, &messages.WakeModel{Name: "m", Node: "a", Waiting: 1, Wakes: 1, Revision: revision})
			s.pass(3 * time.Second)
		}
		expect := func(what string, woken int, awake ...time.Duration) {
			t.Helper()
			if s.woken != woken || !slices.Equal(s.awake, awake) {
				t.Errorf("%s: %d wakes, awake after %v; want %d, %v", what, s.woken, s.awake, woken, awake)
			}
		}
		apply(0)
		stored = errors.New("no quorum")
		request()
		apply(1)
		expect("an operator's start after a wake that was not stored", 0)
		apply(0)
		stored = nil
		request()
		expect("a stored wake", 1)
		apply(1)
		if len(s.awake) != 1 || s.awake[0] < 3*time.Second || s.awake[0] > 5*time.Second {
			t.Errorf("awake after %v", s.awake)
		}
		first := s.awake
		apply(0)
		request()
		expect("another wake", 2, first...)
		apply(0)
		apply(1)
		expect("an operator's start after an undone wake", 2, first...)
	})
}
