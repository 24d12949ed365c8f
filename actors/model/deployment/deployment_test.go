package deployment_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

const ready = messages.DeploymentState_DEPLOYMENT_STATE_READY

// TestReplicasFollowTheirNumber checks the status of a deployment that grows and shrinks.
func TestReplicasFollowTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		s.expectReplicas("a", "m-0")
		s.expectReplicas("b", "m-1")
		if s.lastStatus().GetState() != ready || s.lastStatus().GetTerm() != 1 || s.lastStatus().GetNode() != "a" {
			t.Errorf("%v", s.lastStatus())
		}
		s.apply(1)
		s.expectReplicas("a", "m-0")
		s.expectReplicas("b")
	})
}

// TestNextTermAdoptsReplicas checks that the next term adopts the replicas without loading any, and
// that commands of the previous term are refused.
func TestNextTermAdoptsReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		before := s.pid
		s.start(2)
		s.apply(2)
		s.router.Send(before, &messages.ApplyDeployment{Revision: 2, Spec: &messages.DeploymentSpec{
			Name: "m", Path: "p", Replicas: new(uint32(0)), Assignments: &messages.Assignments{},
		}})
		s.pass(time.Minute)
		s.expectReplicas("a", "m-0")
		s.expectReplicas("b", "m-1")
		if n := len(testkit.Got[*messages.StartReplica](s.hosts["a"].group)); n != 1 {
			t.Errorf("%d starts on host a", n)
		}
	})
}

// TestRestartAdoptsReplicas checks that a restarted deployment adopts its replicas.
func TestRestartAdoptsReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		crash := &testkit.Crash{On: "*messages.StartReplicaResult", Times: 1}
		s.start(1, crash.Middleware)
		s.apply(2)
		s.apply(2) // a restart asks the group for the spec; the test is no group
		if crash.Crashed() == 0 || s.lastStatus().GetState() != ready {
			t.Errorf("crashed %d times, %v", crash.Crashed(), s.lastStatus())
		}
		s.expectReplicas("a", "m-0")
		s.expectReplicas("b", "m-1")
	})
}

// TestExitedReplicaRestartsInPlace checks that a replica that exited is restarted on the GPU that
// still has its lease.
func TestExitedReplicaRestartsInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		b := s.hosts["b"]
		b.mu.Lock()
		gone := b.replicas["m-1"]
		delete(b.replicas, "m-1")
		b.mu.Unlock()
		gone.Stop()
		s.pass(10 * time.Second)
		s.expectReplicas("b", "m-1")
	})
}

// TestCrashingReplicaFails checks that a replica that keeps exiting is restarted once, and that the status reports
// the failure.
func TestCrashingReplicaFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.hosts["a"].crashing = true
		s.start(1)
		s.apply(1)
		s.pass(time.Minute)
		f := s.lastStatus().GetFailure()
		if f.GetReason() != messages.Reason_REASON_ENGINE_FAILED || !strings.Contains(f.GetDetail(), "a/gpu-0") {
			t.Errorf("%v", f)
		}
		if got := s.lastStatus().GetAssigned(); len(got) != 1 || got[0].GetFailure() != f.GetDetail() {
			t.Errorf("assigned: %v", got)
		}
		s.hosts["a"].with(func(a *host) {
			if a.starts != 2 {
				t.Errorf("%d starts, want 2", a.starts)
			}
		})
	})
}

func TestUnreadableModelFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.inspect = errors.New("config.json: no such file")
		s.start(1)
		s.apply(1)
		if s.lastStatus().GetState() != messages.DeploymentState_DEPLOYMENT_STATE_FAILED ||
			s.lastStatus().GetFailure().GetReason() != messages.Reason_REASON_LOAD_FAILED {
			t.Errorf("%v", s.lastStatus())
		}
	})
}

// TestScaleToZero checks that a deployment with 0 replicas is stopped, and that its status says how
// to start it.
func TestScaleToZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.start(1)
		s.apply(2)
		s.expectReplicas("a", "m-0", "m-1")
		s.apply(0)
		s.pass(time.Minute)
		s.expectReplicas("a")
		stopped := messages.DeploymentState_DEPLOYMENT_STATE_STOPPED
		if got := s.lastStatus(); got.GetState() != stopped ||
			!strings.Contains(got.GetDetail(), "models.activate starts it") {
			t.Errorf("%v", got)
		}
		s.apply(1)
		s.expectReplicas("a", "m-0")
		if got := s.lastStatus(); got.GetState() != ready {
			t.Errorf("%v", got)
		}
	})
}
