package replica_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

func (s *harness) setLevel(l messages.Level) {
	s.deploy.Send(s.replica, &messages.SetReplicaLevel{Replica: "m-0", Model: "m", Level: l})
	synctest.Wait()
}

func (s *harness) state() messages.ReplicaState {
	all := s.states()
	return all[len(all)-1]
}

// TestStandbySurvivesCrashes crashes the engine while the replica goes to standby: its sequence still
// finishes. Then it crashes the replica on standby: its successor does not serve before it is
// activated, and reports its level to the device again.
func TestStandbySurvivesCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &positionEngine{delay: 10 * time.Millisecond, crash: func(step int, _ []engine.Sequence) error {
			if step == 4 {
				return errors.New("illegal address")
			}
			return nil
		}}
		crash := &testkit.Crash{On: "*messages.GetSequence", Times: 1}
		s := newHarness(t, c, loaded, crash.Middleware)
		s.submit("r", spec(3, 10))
		s.setLevel(messages.Level_LEVEL_STANDBY)
		s.submit("late", spec(3, 10))
		if state := s.state(); state != messages.ReplicaState_REPLICA_STATE_SUSPENDING {
			t.Errorf("%s with a sequence", state)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.checkServed("r", 3, 10)
		if _, done := s.output("late"); done || s.state() != messages.ReplicaState_REPLICA_STATE_STANDBY {
			t.Errorf("%s; a sequence was accepted: %v", s.state(), done)
		}
		s.checkReported(true)

		s.client.Send(s.replica, &messages.GetSequence{RequestId: "r"})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if crash.Crashed() != 1 || s.state() != messages.ReplicaState_REPLICA_STATE_STANDBY {
			t.Errorf("%s after %d crashes", s.state(), crash.Crashed())
		}
		s.checkReported(true)
		s.setLevel(messages.Level_LEVEL_ACTIVE)
		s.checkReported(false)
		s.submit("r2", spec(3, 10))
		time.Sleep(time.Second)
		synctest.Wait()
		s.checkServed("r2", 3, 10)
	})
}

// checkReported checks the last report to the device.
func (s *harness) checkReported(standby bool) {
	s.t.Helper()
	all := testkit.Got[*messages.KVReport](s.gpu)
	if last := all[len(all)-1]; last.GetStandby() != standby {
		s.t.Errorf("the last report is %v", last)
	}
}
