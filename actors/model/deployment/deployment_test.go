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

// TestLostNodeIsReplaced: what ran there is placed elsewhere at once, under a name that does not clash when the node comes back; then the
// surplus goes.
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
		s.expectReplicas("b", "m-1") // of three, one goes from where there are two
	})
}

// TestDrainingNodeIsEmptied: substitutes first, then the old ones go; and where there is no room they stay, and it is said why.
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

// TestNextTermAdoptsReplicas: it adopts what is there and has nothing loaded again; the reign before is refused, and stops nothing.
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
			t.Errorf("started %d times", n)
		}
	})
}

// TestRestartAdoptsReplicas: the next life adopts what is there.
func TestRestartAdoptsReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		crash := &testkit.Crash{On: "*messages.StartReplicaResult", Times: 1}
		s.start(1, crash.Middleware)
		s.apply(2)
		s.apply(2) // the next life asks the group, which the test is not
		if crash.Crashed() == 0 || s.lastStatus().GetState() != ready {
			t.Errorf("crashed %d times, %v", crash.Crashed(), s.lastStatus())
		}
		s.expectReplicas("a", "m-0")
		s.expectReplicas("b", "m-1")
	})
}

// TestExitedReplicaRestartsInPlace: one that crashed too often is started again where its memory still is.
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

// TestCrashingReplicaBacksOff: one that ends again and again is started again at a rate that harms nobody, and elsewhere where there is room. It is said why.
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
					t.Errorf("%d starts within a minute", a.starts)
				}
				a.crashing = false
				a.mu.Unlock()
				if b := s.hosts["b"]; b != nil {
					b.mu.Lock()
					defer b.mu.Unlock()
					if len(b.replicas) != 2 {
						t.Errorf("b has %d replicas of 2", len(b.replicas))
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

// TestScaleToZero: a deployment with no replicas has none, is not ready, and says how it is started.
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
			!strings.Contains(got.GetDetail(), "models.scale starts it") {
			t.Errorf("%v", got)
		}
		s.apply(1)
		s.expectReplicas("a", "m-0")
		if got := s.lastStatus(); got.GetState() != ready {
			t.Errorf("%v", got)
		}
	})
}

// TestRefusalStatesMemoryShortage: a replica that fits no GPU is refused with sizes.
func TestRefusalStatesMemoryShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.hosts["a"].memory = 20 << 20
		s.start(1)
		s.apply(3)
		s.expectReplicas("a", "m-0", "m-1")
		want := &messages.MemoryShortage{Model: "p", Bytes: needed, Used: 2 * needed, Total: 20 << 20}
		why := s.lastStatus().GetFailure()
		if why.GetReason() != messages.Reason_REASON_NO_MEMORY || !proto.Equal(why.GetMemory(), want) {
			t.Errorf("%v", why)
		}
	})
}
