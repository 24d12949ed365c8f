package session_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
)

// migrationStage is a session whose replica migrates the sequence to a target.
type migrationStage struct {
	*stage
	target *testkit.Peer
}

func playMoving(t *testing.T) *migrationStage {
	s := play(t, always)
	m := &migrationStage{stage: s, target: testkit.NewPeer(t, s.router.System(), "target",
		func(m proto.Message) proto.Message {
			if m, ok := m.(*messages.SubmitSequence); ok {
				return &messages.SubmitSequenceResult{RequestId: m.GetRequestId(), Incarnation: 1,
					Outcome: &messages.SubmitSequenceResult_Accepted{}}
			}
			return nil
		})}
	s.emit(0, 10, 11)
	return m
}

func (m *migrationStage) sendMoved(from *testkit.Peer) {
	from.Send(m.session, &messages.SequenceMoved{
		RequestId: "r", Replica: "m-1", Actor: &messages.ActorRef{Address: m.target.PID.GetAddress(),
			Id: m.target.PID.GetId()}, Incarnation: 3,
	})
	synctest.Wait()
}

func (m *migrationStage) emitFrom(from *testkit.Peer, first uint32, tokens ...uint32) {
	from.Send(m.session, &messages.TokensEmitted{RequestId: "r", FirstIndex: first, Tokens: tokens})
	synctest.Wait()
}

func cancelled(p *testkit.Peer) int { return len(testkit.Got[*messages.CancelSequence](p)) }

// TestMovedSessionFollowsTarget checks that the session queries the target and ignores the source
// from then on.
func TestMovedSessionFollowsTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := playMoving(t)
		m.sendMoved(m.replica)
		if len(testkit.Got[*messages.GetSequence](m.target)) != 1 {
			t.Error("the target was not queried")
		}
		received := testkit.Got[*messages.SequenceMoved](m.router)
		if len(received) != 1 || received[0].GetReplica() != "m-1" {
			t.Errorf("the router received %v", received)
		}
		m.target.Send(m.session, &messages.SequenceStatus{RequestId: "r", Known: true, OutputTokens: 2})
		m.emitFrom(m.target, 2, 12)
		m.emitFrom(m.replica, 1, 11)                                        // a late message
		m.replica.Send(m.session, &messages.SequenceStatus{RequestId: "r"}) // a late answer
		m.replica.Send(m.session, &messages.SequenceInterrupted{RequestId: "r", Incarnation: 9,
			Refused: &messages.Refused{Reason: messages.Reason_REASON_NOT_READY}})
		m.replica.Stop()
		time.Sleep(time.Second)
		synctest.Wait()
		m.emitFrom(m.target, 3, 13)
		m.expectOutput(10, 11, 12, 13)
		if n := len(testkit.Got[*messages.SubmitSequence](m.target)); n != 0 {
			t.Errorf("%d submissions to the target", n)
		}
		if _, n := m.submitted(); n != 1 || len(testkit.Got[*messages.RouteSequence](m.router)) != 1 ||
			cancelled(m.target) != 0 {
			t.Errorf("%d submissions, %d routes, cancelled %d times", n,
				len(testkit.Got[*messages.RouteSequence](m.router)), cancelled(m.target))
		}
		m.target.Stop()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(testkit.Got[*messages.RouteSequence](m.router)) < 2 {
			t.Error("no new route after the target stopped")
		}
	})
}

// TestTargetRepeatsLostTokens checks that the target repeats tokens that the source sent but the
// session never received.
func TestTargetRepeatsLostTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := playMoving(t)
		m.emitFrom(m.target, 3, 13) // token 2 has not arrived
		m.expectOutput(10, 11)
		m.sendMoved(m.replica)
		m.target.Send(m.session, &messages.SequenceStatus{RequestId: "r", Known: true, OutputTokens: 4})
		synctest.Wait()
		all := testkit.Got[*messages.SubmitSequence](m.target)
		if len(all) != 1 || !slices.Equal(all[0].GetOutput(), []uint32{10, 11}) ||
			len(testkit.Got[*messages.RouteSequence](m.router)) != 1 {
			t.Errorf("%v", all)
		}
	})
}

// TestDuplicateDecodeIsCancelled loses SequenceMoved, so that two replicas decode the sequence, and
// expects one of them to be cancelled.
func TestDuplicateDecodeIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := playMoving(t)
		m.emitFrom(m.target, 2, 12)
		m.emitFrom(m.replica, 2, 12)
		if cancelled(m.target) != 0 {
			t.Error("the target was cancelled before SequenceMoved could have arrived")
		}
		time.Sleep(700 * time.Millisecond)
		m.emitFrom(m.replica, 3, 13)
		m.expectOutput(10, 11, 12, 13)
		if cancelled(m.target) != 1 || cancelled(m.replica) != 0 {
			t.Errorf("cancelled %d times at the target, %d at the source", cancelled(m.target), cancelled(m.replica))
		}
	})
}

// TestFinishAtTargetCancelsSource checks that the source is cancelled when the target finishes the
// sequence.
func TestFinishAtTargetCancelsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := playMoving(t)
		m.target.Send(m.session, &messages.TokensEmitted{RequestId: "r", FirstIndex: 2, Tokens: []uint32{12},
			Finish: length})
		synctest.Wait()
		if m.expectOutput(10, 11, 12); m.ends != 1 || cancelled(m.replica) != 1 {
			t.Errorf("ended %d times, cancelled %d times at the source", m.ends, cancelled(m.replica))
		}
	})
}

// TestMovedFromLeftReplicaIsRefused checks that SequenceMoved from a replica that is not assigned
// is not followed.
func TestMovedFromLeftReplicaIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := playMoving(t)
		stranger := testkit.NewPeer(t, m.router.System(), "stranger", nil)
		m.sendMoved(stranger)
		m.emit(2, 12)
		m.expectOutput(10, 11, 12)
		if cancelled(m.target) != 1 || len(testkit.Got[*messages.GetSequence](m.target)) != 0 {
			t.Errorf("cancelled %d times at a target without a session", cancelled(m.target))
		}
	})
}
