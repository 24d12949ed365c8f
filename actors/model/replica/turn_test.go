package replica_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

// shared is a harness whose gpu actor grants no turns by itself.
func shared(t *testing.T) *harness {
	s := newHarness(t, &positionEngine{delay: time.Millisecond}, loaded)
	s.turns = nil
	return s
}

// asked returns the requests for turns, with those at the end of a turn.
func (s *harness) asked() (all []*messages.RequestTurn) {
	synctest.Wait()
	all = testkit.Got[*messages.RequestTurn](s.gpu)
	for _, e := range testkit.Got[*messages.TurnEnded](s.gpu) {
		if e.GetNext() != nil {
			all = append(all, e.GetNext())
		}
	}
	return all
}

func (s *harness) grant(number uint64, open bool) {
	all := s.asked()
	s.gpu.Send(s.replica, &messages.TurnGranted{Started: all[len(all)-1].GetStarted(), Number: number, Open: open})
	synctest.Wait()
}

// TestAloneSendsNoMessages checks that a replica that has its device to itself sends one message about
// turns, however many steps it runs.
func TestAloneSendsNoMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{delay: time.Millisecond}, loaded)
		for range 3 {
			s.submit("a", spec(3, 40))
			time.Sleep(10 * time.Second)
			s.checkServed("a", 3, 40)
		}
		if asked, ended := len(s.asked()), len(testkit.Got[*messages.TurnEnded](s.gpu)); asked != 1 || ended != 0 {
			t.Errorf("%d requests and %d ends in 120 steps, want 1 and 0", asked, ended)
		}
	})
}

// TestStepsNeedTurns checks that each step needs a turn while other replicas wait, and that a turn of an
// earlier incarnation is not taken.
func TestStepsNeedTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared(t)
		s.submit("a", spec(3, 3))
		time.Sleep(10 * time.Second)
		if s.engine.count() != 0 {
			t.Fatal("a step ran without a turn")
		}
		s.gpu.Send(s.replica, &messages.TurnGranted{Started: 1, Number: 1, Open: true})
		time.Sleep(time.Second)
		if s.engine.count() != 0 {
			t.Fatal("a step ran in the turn of an earlier incarnation")
		}
		for n := range 3 {
			s.grant(uint64(n+2), false)
			time.Sleep(time.Second)
			if s.engine.count() != n+1 {
				t.Fatalf("%d steps ran in %d turns", s.engine.count(), n+1)
			}
		}
		s.checkServed("a", 3, 3)
		last := testkit.Got[*messages.TurnEnded](s.gpu)[2]
		if last.GetNext() != nil || last.GetNumber() != 4 || last.GetUsed().AsDuration() != time.Millisecond {
			t.Errorf("%v, want the end of turn 4 after 1 ms", last)
		}
	})
}

// TestRestartedGpuGetsTurnsBack checks that a replica ends its turn and asks again after a restart of the
// gpu actor, and that a restarted replica reports first that it has no turn.
func TestRestartedGpuGetsTurnsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.DrainReplica", Times: 1}
		s := newHarness(t, &positionEngine{delay: time.Second}, loaded, crash.Middleware)
		s.turns = nil
		s.submit("a", spec(3, 40))
		s.grant(1, true)
		s.gpu.Send(s.replica, &messages.RecallTurn{})
		if got := testkit.Got[*messages.TurnEnded](s.gpu); len(got) != 0 {
			t.Fatalf("%v during a step", got)
		}
		time.Sleep(1500 * time.Millisecond)
		ended := testkit.Got[*messages.TurnEnded](s.gpu)
		if len(ended) != 1 || ended[0].GetNumber() != 1 || ended[0].GetNext() == nil {
			t.Fatalf("%v, want the end of turn 1 and a request", ended)
		}
		s.gpu.Send(s.replica, &messages.DrainReplica{}) // crashes the replica
		time.Sleep(time.Second)
		ended = testkit.Got[*messages.TurnEnded](s.gpu)
		if len(ended) != 2 || ended[1].GetNumber() != 0 || ended[1].GetStarted() <= ended[0].GetStarted() {
			t.Errorf("%v, want a report of the next incarnation", ended)
		}
	})
}
