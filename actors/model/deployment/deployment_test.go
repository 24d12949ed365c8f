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

func TestSpreadsOverNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		s.has("a", "m-0")
		s.has("b", "m-1")
		if s.told().GetState() != ready || s.told().GetTerm() != 1 || s.told().GetNode() != "a" {
			t.Errorf("%v", s.told())
		}
		s.apply(1)
		s.has("a", "m-0")
		s.has("b")
	})
}

// TestLostNode: what ran there is placed elsewhere at once, under a name that does not clash when the node comes back; then the
// surplus goes.
func TestLostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		s.leave("b")
		s.pass(2 * time.Second)
		s.has("a", "m-0", "m-2")
		s.join("b", "b.2")
		s.pass(10 * time.Second)
		if s.told().GetState() != ready {
			t.Errorf("%v", s.told())
		}
		if left := len(s.hosts["a"].replicas) + len(s.hosts["b"].replicas); left != 2 {
			t.Errorf("%d replicas", left)
		}
		s.has("b", "m-1") // of three, one goes from where there are two
	})
}

// TestEmptiedNode: substitutes first, then the old ones go; and where there is no room they stay, and it is said why.
func TestEmptiedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		s.change(func(m *messages.MembersChanged) { m.Draining = []string{"b"} })
		s.pass(10 * time.Second)
		s.has("a", "m-0", "m-2")
		s.has("b")
		s.hosts["b"].memory = needed / 2
		s.change(func(m *messages.MembersChanged) { m.Draining = []string{"a"} })
		s.pass(10 * time.Second)
		s.has("a", "m-0", "m-2")
		if d := s.told().GetFailure().GetDetail(); !strings.Contains(d, "1 of 2 short of memory") || !strings.Contains(d, "1 draining") {
			t.Errorf("%q", d)
		}
	})
}

// TestNextReign: it adopts what is there and has nothing loaded again; the reign before is refused, and stops nothing.
func TestNextReign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		before := s.pid
		s.start(2)
		s.apply(2)
		s.router.Send(before, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "m", Path: "p", Replicas: new(uint32(1)), BlockTokens: new(uint32(16))}, Revision: 2})
		s.pass(time.Minute)
		s.has("a", "m-0")
		s.has("b", "m-1")
		if n := len(testkit.Got[*messages.StartReplica](s.hosts["a"].group)); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

// TestCrash: the next life adopts what is there.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		crash := &testkit.Crash{On: "*messages.StartReplicaResult", Times: 1}
		s.start(1, crash.Middleware)
		s.apply(2)
		s.apply(2) // the next life asks the group, which the test is not
		if crash.Crashed() == 0 || s.told().GetState() != ready {
			t.Errorf("crashed %d times, %v", crash.Crashed(), s.told())
		}
		s.has("a", "m-0")
		s.has("b", "m-1")
	})
}

// TestReplicaGone: one that crashed too often is started again where its memory still is.
func TestReplicaGone(t *testing.T) {
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
		s.has("b", "m-1")
	})
}

// TestFrail: one that ends again and again is started again at a rate that harms nobody, and elsewhere where there is room. It is said why.
func TestFrail(t *testing.T) {
	for name, hosts := range map[string][]string{"nowhere else": {"a"}, "elsewhere": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t, hosts...)
				s.hosts["a"].frail = true
				s.start(1)
				s.apply(uint32(len(hosts)))
				if f := s.told().GetFailure(); len(hosts) == 1 && (f.GetReason() != messages.Reason_REASON_ENGINE_FAILED || !strings.Contains(f.GetDetail(), "a/gpu-0")) {
					t.Errorf("%v", f)
				}
				s.pass(50 * time.Second)
				a := s.hosts["a"]
				a.mu.Lock()
				if a.starts < 3 || a.starts > 6 {
					t.Errorf("%d starts within a minute", a.starts)
				}
				a.frail = false
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
				s.has("a", "m-0")
			})
		})
	}
}

func TestBadModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.inspect = errors.New("config.json: no such file")
		s.start(1)
		s.apply(1)
		if s.told().GetState() != messages.DeploymentState_DEPLOYMENT_STATE_FAILED || s.told().GetFailure().GetReason() != messages.Reason_REASON_LOAD_FAILED {
			t.Errorf("%v", s.told())
		}
	})
}

// TestStopped: a deployment with no replicas has none, is not ready, and says how it is started.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.start(1)
		s.apply(2)
		s.has("a", "m-0", "m-1")
		s.apply(0)
		s.pass(time.Minute)
		s.has("a")
		stopped := messages.DeploymentState_DEPLOYMENT_STATE_STOPPED
		if got := s.told(); got.GetState() != stopped || !strings.Contains(got.GetDetail(), "models.scale starts it") {
			t.Errorf("%v", got)
		}
		s.apply(1)
		s.has("a", "m-0")
		if got := s.told(); got.GetState() != ready {
			t.Errorf("%v", got)
		}
	})
}

// TestSaysHowMuchIsMissing: a replica that fits no GPU is refused with sizes.
func TestSaysHowMuchIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.hosts["a"].memory = 20 << 20
		s.start(1)
		s.apply(3)
		s.has("a", "m-0", "m-1")
		want := &messages.MemoryShortage{Model: "p", Bytes: needed, Used: 2 * needed, Total: 20 << 20}
		why := s.told().GetFailure()
		if why.GetReason() != messages.Reason_REASON_NO_MEMORY || !proto.Equal(why.GetMemory(), want) {
			t.Errorf("%v", why)
		}
	})
}
