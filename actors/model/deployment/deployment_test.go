package deployment_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
)

const ready = messages.DeploymentState_DEPLOYMENT_STATE_READY

func TestReplicasSpreadOverNodes(t *testing.T) {
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

// TestLostNodeIsReplaced checks that replicas of a lost node are placed elsewhere at once, under
// new names. When the node comes back, the surplus is removed.
func TestLostNodeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		s.leave("b")
		s.pass(2 * time.Second)
		s.expectReplicas("a", "m-0", "m-2")
		s.join("b", "b.2")
		s.pass(10 * time.Second)
		if s.lastStatus().GetState() != ready {
			t.Errorf("%v", s.lastStatus())
		}
		if left := len(s.hosts["a"].replicas) + len(s.hosts["b"].replicas); left != 2 {
			t.Errorf("%d replicas", left)
		}
		s.expectReplicas("b", "m-1") // the node with two replicas loses one
	})
}

// TestDrainingNodeIsEmptied checks that replicas leave a draining node after their substitutes
// serve. Without room for substitutes they stay, and the status reports why.
func TestDrainingNodeIsEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		s.change(func(m *messages.MembersChanged) { m.Draining = []string{"b"} })
		s.pass(10 * time.Second)
		s.expectReplicas("a", "m-0", "m-2")
		s.expectReplicas("b")
		s.hosts["b"].memory = needed / 2
		s.change(func(m *messages.MembersChanged) { m.Draining = []string{"a"} })
		s.pass(10 * time.Second)
		s.expectReplicas("a", "m-0", "m-2")
		if d := s.lastStatus().GetFailure().GetDetail(); !strings.Contains(d, "1 of 2 short of memory") ||
			!strings.Contains(d, "1 draining") {
			t.Errorf("%q", d)
		}
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
		s.router.Send(before, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "m", Path: "p",
			Replicas: new(uint32(1)), BlockTokens: new(uint32(16))}, Revision: 2})
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

// TestExitsAreCountedPerGPU checks that an exit on one GPU does not count against the next one.
func TestExitsAreCountedPerGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(1)
		s.expectReplicas("a", "m-0")
		s.change(func(m *messages.MembersChanged) { m.Draining = []string{"a"} })
		s.hosts["b"].crashFirst = 1
		a := s.hosts["a"]
		a.mu.Lock()
		gone := a.replicas["m-0"]
		delete(a.replicas, "m-0")
		a.mu.Unlock()
		gone.Stop()
		s.pass(10 * time.Second)
		if n := s.hosts["b"].starts; n < 2 {
			t.Errorf("%d starts on b within 10 s, want the exited replica to restart there", n)
		}
	})
}

// TestCrashingReplicaBacksOff checks that a replica that keeps exiting is restarted at a low rate,
// on another GPU if there is room, and that the status reports the failure.
func TestCrashingReplicaBacksOff(t *testing.T) {
	for name, hosts := range map[string][]string{"nowhere else": {"a"}, "elsewhere": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t, hosts...)
				s.hosts["a"].crashing = true
				s.start(1)
				s.apply(uint32(len(hosts)))
				f := s.lastStatus().GetFailure()
				if len(hosts) == 1 && (f.GetReason() != messages.Reason_REASON_ENGINE_FAILED ||
					!strings.Contains(f.GetDetail(), "a/gpu-0")) {
					t.Errorf("%v", f)
				}
				s.pass(50 * time.Second)
				a := s.hosts["a"]
				a.mu.Lock()
				if a.starts < 3 || a.starts > 6 {
					t.Errorf("%d starts in a minute", a.starts)
				}
				a.crashing = false
				a.mu.Unlock()
				if b := s.hosts["b"]; b != nil {
					b.mu.Lock()
					defer b.mu.Unlock()
					if len(b.replicas) != 2 {
						t.Errorf("b has %d replicas, want 2", len(b.replicas))
					}
					return
				}
				s.pass(31 * time.Second)
				s.expectReplicas("a", "m-0")
			})
		})
	}
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

// TestRefusalStatesMemoryShortage checks that the refusal of a replica that fits no GPU contains
// the sizes.
func TestRefusalStatesMemoryShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.hosts["a"].memory = 20 << 20
		s.start(1)
		s.apply(3)
		s.expectReplicas("a", "m-0", "m-1")
		want := &messages.MemoryShortage{Model: "p", Bytes: needed, Used: 2 * needed, Total: 20 << 20,
			Evictable: 4 << 20}
		why := s.lastStatus().GetFailure()
		if why.GetReason() != messages.Reason_REASON_NO_MEMORY || !proto.Equal(why.GetMemory(), want) {
			t.Errorf("%v", why)
		}
	})
}

// TestScaledDownWhilePlacing checks that a replica that is removed before it has a GPU is forgotten.
// Its name is free again, and the deployment can be deleted.
func TestScaledDownWhilePlacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.hosts["b"].gpu.Stop() // it does not answer, so that placing takes its time
		s.start(1)
		s.router.Send(s.pid, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "m", Path: "p",
			Replicas: new(uint32(1)), BlockTokens: new(uint32(16))}, Revision: 1})
		s.pass(100 * time.Millisecond)
		s.apply(0)
		s.expectReplicas("a")
		s.apply(1)
		s.expectReplicas("a", "m-0")
	})
}
