package planner_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/planner"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// stage is a planner with a fake store and a router that reports a configurable load.
type stage struct {
	mu       sync.Mutex
	leads    bool
	running  uint32
	replicas uint32
	loading  uint32  // replicas that do not serve yet
	least    *uint32 // nil: 1
	revision uint64
	scaled   []string
	crash    *testkit.Crash
}

func (s *stage) set(change func()) { s.mu.Lock(); change(); s.mu.Unlock() }

func (s *stage) table(proto.Message) proto.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{
			Name: "m", Replicas: new(uint32(s.replicas)),
			MinReplicas: cmp.Or(s.least, new(uint32(1))), MaxReplicas: new(uint32(3)),
		},
		Revision: s.revision, State: messages.DeploymentState_DEPLOYMENT_STATE_READY,
	}
	for range s.replicas {
		d.Replicas = append(d.Replicas, &messages.ReplicaStatus{
			State: messages.ReplicaState_REPLICA_STATE_SERVING, Running: s.running / s.replicas, MaxSequences: 10,
		})
	}
	for range s.loading {
		d.Replicas = append(d.Replicas, &messages.ReplicaStatus{
			State: messages.ReplicaState_REPLICA_STATE_LOADING, MaxSequences: 100})
	}
	fixed := proto.CloneOf(d)
	fixed.Spec.Name, fixed.Spec.MinReplicas, fixed.Spec.MaxReplicas = "fixed", new(uint32(1)), new(uint32(1))
	return &messages.ClusterView{Deployments: []*messages.DeploymentStatus{fixed, d}}
}

func (s *stage) scale(_ context.Context, name string, revision uint64, replicas uint32, why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision != s.revision {
		return fmt.Errorf("stale revision %d (current %d)", revision, s.revision)
	}
	s.revision++
	s.replicas = replicas
	s.scaled = append(s.scaled, fmt.Sprintf("%s to %d", name, replicas))
	if why == "" {
		return fmt.Errorf("no reason")
	}
	return nil
}

func (s *stage) play(t *testing.T) {
	sys := testkit.System(t)
	router := testkit.NewPeer(t, sys, "router", s.table)
	s.crash = &testkit.Crash{On: "*messages.ClusterView", After: 20, Times: 1}
	testkit.Spawn(t, sys, "planner", supervise.Strategy(nil), planner.Props(planner.Config{
		Router: router.PID, Scale: s.scale, Log: zerolog.Nop(),
		IsLeader: func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.leads },
		Acquire:  func(context.Context) error { s.set(func() { s.leads = true }); return nil },
	}), s.crash.Middleware)
}

func (s *stage) after(t *testing.T, d time.Duration, want ...string) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.scaled, want) {
		t.Errorf("after %v: %q, want %q", d, s.scaled, want)
	}
}

// TestScalesWithLoad checks that the planner scales up under high load and down under low load,
// even after a crash, and never beyond the bounds.
func TestScalesWithLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{replicas: 1, running: 10, revision: 1}
		s.play(t)
		s.after(t, 10*time.Second, "m to 2")
		s.set(func() { s.running = 30 })
		s.after(t, 5*time.Minute, "m to 2", "m to 3")
		s.set(func() { s.running = 0 })
		s.after(t, 10*time.Minute, "m to 2", "m to 3", "m to 2", "m to 1")
		if s.crash.Crashed() == 0 {
			t.Error("the planner did not crash")
		}
	})
}

// TestCountsServingReplicas checks that the places of a replica that still loads count for nothing.
func TestCountsServingReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{replicas: 1, loading: 1, running: 10, revision: 1}
		s.play(t)
		s.after(t, 10*time.Second, "m to 2")
	})
}

// TestOnlyLeaderDecides checks that a planner without the lease makes no decisions, and that the
// store refuses those of a stale leader.
func TestOnlyLeaderDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{replicas: 1, running: 10, revision: 1}
		sys := testkit.System(t)
		router := testkit.NewPeer(t, sys, "router", s.table)
		asked := 0
		testkit.Spawn(t, sys, "planner", supervise.Strategy(nil), planner.Props(planner.Config{
			Router: router.PID, Scale: s.scale, Log: zerolog.Nop(), IsLeader: func() bool { return false },
			Acquire: func(context.Context) error { asked++; return fmt.Errorf("b holds it") },
		}))
		s.after(t, time.Minute)
		if len(testkit.Got[*messages.GetClusterView](router)) > 0 || asked < 10 {
			t.Errorf("requested the lease %d times", asked)
		}
	})
}

// TestStoppedStaysStopped checks that neither load nor a bound starts a model that an operator has
// stopped.
func TestStoppedStaysStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{replicas: 0, running: 10, revision: 1}
		s.play(t)
		s.after(t, 10*time.Minute)
		s.set(func() { s.replicas = 1 })
		s.after(t, time.Minute, "m to 2")
	})
}

// TestLeastZero checks that min_replicas 0 does not lead to 0 replicas, and that the number of
// replicas follows the load.
func TestLeastZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{replicas: 2, least: new(uint32(0)), revision: 1}
		s.play(t)
		s.after(t, 30*time.Minute, "m to 1")
	})
}
