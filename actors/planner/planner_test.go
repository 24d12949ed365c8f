package planner_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/planner"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

const mib = 1 << 20

// stage is a planner with a store, a router, two devices and a deployments group, all played by the test. The
// deployments do at once what is stored.
type stage struct {
	t      *testing.T
	mu     sync.Mutex
	term   uint64 // of the planner's node; 0: node b leads
	paused bool
	silent bool          // gpu-1 does not answer
	slow   time.Duration // until the router answers
	specs  []*messages.ApplyDeployment
	wakes  map[string]uint32
	writes []string
	events []string
	fail   error // of writes
	pid    *actor.PID
	sys    *actor.ActorSystem
	group  *testkit.Peer
	router *testkit.Peer
	other  *testkit.Peer // planner of another node
	crash  *testkit.Crash

	adapters planner.Adapters
	replicas []*messages.ReplicaStatus
}

func (s *stage) set(change func()) { s.mu.Lock(); change(); s.mu.Unlock() }

// spec returns what is stored of a deployment.
func (s *stage) spec(i int) *messages.DeploymentSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.specs[i].GetSpec()
}

func (s *stage) deploy(name string, least, most uint32, change func(*messages.DeploymentSpec)) {
	spec := (&messages.DeploymentSpec{Name: name, Path: "/" + name, Replicas: new(least), MinReplicas: new(least),
		MaxReplicas: new(most)}).Complete()
	spec.Replicas, spec.MinReplicas, spec.MaxReplicas = new(least), new(least), new(most)
	if change != nil {
		change(spec)
	}
	s.specs = append(s.specs, &messages.ApplyDeployment{Spec: spec, Revision: uint64(len(s.specs) + 1)})
}

// view is the answer of the router.
func (s *stage) view(proto.Message) proto.Message {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	time.Sleep(slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &messages.ClusterView{Replicas: s.replicas}
	for _, d := range s.specs {
		name := d.GetSpec().GetName()
		status := &messages.DeploymentStatus{Spec: d.GetSpec(), Revision: d.GetRevision(), Node: "a",
			Wakes: s.wakes[name],
			Need:  &messages.ReplicaNeed{Weights: 60 * mib, Fixed: 2 * mib, Min: 2 * mib, MinAlone: 2 * mib}}
		for _, a := range d.GetSpec().GetAssignments().GetReplicas() {
			status.Assigned = append(status.Assigned, &messages.AssignmentStatus{
				Replica: a.GetReplica(), Node: a.GetNode(), Gpus: a.GetGpus(), Since: a.GetAt(), At: a.GetAt(),
				Progress: messages.AssignmentProgress_ASSIGNMENT_PROGRESS_UP,
			})
			status.Wakes = 0
		}
		v.Deployments = append(v.Deployments, status)
	}
	return v
}

func (s *stage) assign(_ context.Context, a planner.Assigned) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail; err != nil {
		s.fail = nil
		return 0, err
	}
	for i, d := range s.specs {
		if d.GetSpec().GetName() != a.Name {
			continue
		}
		if d.GetRevision() != a.Revision {
			return 0, planner.ErrConflict
		}
		spec := proto.CloneOf(d.GetSpec())
		if spec.Replicas, spec.Assignments = new(a.Replicas), a.Assignments; a.Released != "" {
			spec.EndHolds()
		}
		s.specs = slices.Clone(s.specs)
		s.specs[i] = &messages.ApplyDeployment{Spec: spec, Revision: a.Revision + 100}
		var names []string
		for _, r := range a.Assignments.GetReplicas() {
			names = append(names, r.GetReplica())
		}
		s.writes = append(s.writes,
			fmt.Sprintf("%s: %d %v of term %d", a.Name, a.Replicas, names, a.Assignments.GetTerm()))
		return a.Revision + 100, nil
	}
	return 0, planner.ErrConflict
}

func (s *stage) play() {
	s.sys = testkit.System(s.t)
	s.router = testkit.NewPeer(s.t, s.sys, "router", s.view)
	s.group = testkit.NewPeer(s.t, s.sys, "group", nil)
	s.other = testkit.NewPeer(s.t, s.sys, "other", nil)
	cache := testkit.NewPeer(s.t, s.sys, "cache",
		func(proto.Message) proto.Message { return &messages.HostCacheStatus{} })
	gpus := make(map[string]*testkit.Peer)
	for _, name := range []string{"gpu-0", "gpu-1"} {
		gpus[name] = testkit.NewPeer(s.t, s.sys, name, func(proto.Message) proto.Message {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.silent && name == "gpu-1" {
				return nil
			}
			return &messages.GpuStatus{Name: name, MemoryBytes: 100 * mib,
				Budget: &messages.MemoryBudget{KvReserve: 10 * mib}}
		})
	}
	a := &messages.Member{Name: "a", Gpus: []string{"gpu-0", "gpu-1"}}
	s.crash = &testkit.Crash{On: "*planner.viewed", After: 5, Times: 1}
	s.pid = testkit.Spawn(s.t, s.sys, "planner", supervise.Strategy(nil), planner.Props(planner.Config{
		Node: "a", Router: s.router.PID, Assign: s.assign, Log: zerolog.Nop(),
		Members: func() *messages.MembersChanged {
			return &messages.MembersChanged{Members: []*messages.Member{a, {Name: "b"}}}
		},
		Stored: func() []*messages.ApplyDeployment { s.mu.Lock(); defer s.mu.Unlock(); return s.specs },
		Pause: func() *messages.PlannerPause {
			s.mu.Lock()
			defer s.mu.Unlock()
			return &messages.PlannerPause{Paused: s.paused, By: "ops"}
		},
		Leader: func() (string, uint64) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.term == 0 {
				return "b", 1
			}
			return "a", s.term
		},
		Acquire:     func(context.Context) error { return fmt.Errorf("b holds it") },
		Planner:     func(*messages.Member) *actor.PID { return s.other.PID },
		GPU:         func(_ *messages.Member, gpu string) *actor.PID { return gpus[gpu].PID },
		HostCache:   func(*messages.Member) *actor.PID { return cache.PID },
		Deployments: func(*messages.Member) *actor.PID { return s.group.PID },
		Adapters:    s.adapters,
		Publish:     func(kind, _, _ string) { s.set(func() { s.events = append(s.events, kind) }) },
	}), s.crash.Middleware)
}

// ask sends a query to the planner.
func (s *stage) ask(query proto.Message) any {
	got, err := supervise.Request(s.sys.Root, s.pid, query, 5*time.Second).Result()
	if err != nil {
		s.t.Error(err)
	}
	return got
}

func (s *stage) after(d time.Duration, want ...string) {
	s.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.writes, want) {
		s.t.Errorf("after %v: %q, want %q", d, s.writes, want)
	}
	s.writes = nil
}

func run(t *testing.T, f func(s *stage)) {
	synctest.Test(t, func(t *testing.T) { f(&stage{t: t, term: 7, wakes: make(map[string]uint32)}) })
}

// TestStoresAssignments checks that the leader stores the replicas of new deployments, and nothing more once
// they are there.
func TestStoresAssignments(t *testing.T) {
	run(t, func(s *stage) {
		s.deploy("m", 1, 2, nil)
		s.deploy("n", 1, 1, nil)
		s.play()
		s.after(5*time.Second, "m: 1 [m-0] of term 7", "n: 1 [n-0] of term 7")
		s.after(time.Minute)
		if s.crash.Crashed() == 0 {
			t.Error("the planner did not crash")
		}
		if at := s.specs[0].GetSpec().GetAssignments().GetReplicas()[0]; at.GetNode() != "a" || at.GetWhy() == "" ||
			len(at.GetGpus()) != 1 || at.GetAt() == nil {
			t.Errorf("%v", at)
		}
		if len(s.events) != 1 || s.events[0] != "planner.planned" {
			t.Errorf("%q", s.events)
		}
	})
}

// TestWakesAndRefuses checks that requests wake a model, and that a model without room learns so with each
// plan, and once more when it has its replica.
func TestWakesAndRefuses(t *testing.T) {
	run(t, func(s *stage) {
		s.deploy("m", 1, 1, nil)
		s.deploy("n", 0, 1, nil)
		s.silent = true
		s.play()
		s.after(5*time.Second, "m: 1 [m-0] of term 7", "n: 0 [] of term 7")
		s.set(func() { s.wakes["n"] = 3 })
		s.after(3 * time.Second)
		refused := testkit.Got[*messages.PlacementRefused](s.group)
		last := refused[len(refused)-1]
		if last.GetName() != "n" || last.GetMissing() != 1 || last.GetRefused().GetDetail() == "" {
			t.Errorf("%v", last)
		}
		s.set(func() { s.silent = false })
		s.after(3*time.Second, "n: 1 [n-0] of term 7")
		refused = testkit.Got[*messages.PlacementRefused](s.group)
		last = refused[len(refused)-1]
		if last.GetName() != "n" || last.GetMissing() != 0 || last.GetRevision() < 100 {
			t.Errorf("the end: %v", last)
		}
	})
}

// TestPlansSoonAfterChange checks that a change that the router reports is planned within 200 ms, and that many
// reports lead to no more than ten observations a second, and to fewer if these take long.
func TestPlansSoonAfterChange(t *testing.T) {
	run(t, func(s *stage) {
		s.deploy("n", 0, 1, nil)
		s.play()
		s.after(20*time.Second, "n: 0 [] of term 7")
		s.set(func() { s.wakes["n"] = 3 })
		s.sys.Root.Send(s.pid, &messages.ClusterChanged{})
		s.after(200*time.Millisecond, "n: 1 [n-0] of term 7")
		s.after(20 * time.Second)
		seen := len(testkit.Got[*messages.GetClusterView](s.router))
		for range 100 {
			s.sys.Root.Send(s.pid, &messages.ClusterChanged{})
			s.after(10 * time.Millisecond)
		}
		observed := func(least, most int) {
			t.Helper()
			if n := len(testkit.Got[*messages.GetClusterView](s.router)) - seen; n < least || n > most {
				t.Errorf("%d observations in a second", n)
			}
		}
		observed(9, 11)
		s.set(func() { s.slow = 80 * time.Millisecond })
		s.after(5 * time.Second)
		seen = len(testkit.Got[*messages.GetClusterView](s.router))
		for range 100 {
			s.sys.Root.Send(s.pid, &messages.ClusterChanged{})
			s.after(10 * time.Millisecond)
		}
		observed(3, 4)
	})
}

// TestOnlyLeaderStores checks that a planner without the lease stores nothing and says who leads.
func TestOnlyLeaderStores(t *testing.T) {
	run(t, func(s *stage) {
		s.deploy("m", 1, 1, nil)
		s.term = 0
		s.play()
		s.after(time.Minute)
		if len(testkit.Got[*messages.GetClusterView](s.router)) > 0 {
			t.Error("it observed")
		}
		for _, query := range []proto.Message{&messages.GetPlan{}, &messages.GetPlan{Now: true},
			&messages.GetPlanHistory{}, &messages.ExplainModel{Model: "m"}} {
			if r, ok := s.ask(query).(*messages.Refused); !ok || r.GetReason() != messages.Reason_REASON_NOT_READY {
				t.Errorf("%T: %v", query, r)
			}
		}
		s.set(func() { s.term = 9 })
		s.after(3*time.Second, "m: 1 [m-0] of term 9")
	})
}

// TestRepeatsFromObservation checks that a write that fails, for whatever reason, is planned again.
func TestRepeatsFromObservation(t *testing.T) {
	for name, err := range map[string]error{
		"conflict": planner.ErrConflict, "no answer": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(s *stage) {
				s.deploy("m", 1, 1, nil)
				s.fail = err
				s.play()
				s.after(300*time.Millisecond, "m: 1 [m-0] of term 7")
				status := s.ask(&messages.GetPlanner{}).(*messages.PlannerStatus)
				if status.GetConflicts()+status.GetFailed() != 1 || status.GetPlans() < 2 {
					t.Errorf("%v", status)
				}
			})
		})
	}
}

// TestPausesAndExplains checks that a paused planner stores nothing and still shows what it would do.
func TestPausesAndExplains(t *testing.T) {
	run(t, func(s *stage) {
		s.deploy("m", 1, 1, nil)
		s.paused = true
		s.play()
		s.after(time.Minute)
		report := s.ask(&messages.GetPlan{RequestId: "1", Now: true, Snapshot: true}).(*messages.PlanReport)
		if report.GetRequestId() != "1" || len(report.GetReplicas()) != 1 || report.GetNumber() != 0 ||
			len(report.GetSnapshot()) == 0 || report.GetModels()[0].GetDemand().Rate != nil {
			t.Errorf("%v", report)
		}
		why := s.ask(&messages.ExplainModel{RequestId: "2", Model: "m"}).(*messages.ModelExplanation)
		if why.GetRequestId() != "2" || len(why.GetDevices()) != 2 || why.GetModel().GetWant() != 1 {
			t.Errorf("%v", why)
		}
		if r, ok := s.ask(&messages.ExplainModel{Model: "x"}).(*messages.Refused); !ok ||
			r.GetReason() != messages.Reason_REASON_NOT_FOUND {
			t.Errorf("%v", r)
		}
		status := s.ask(&messages.GetPlanner{}).(*messages.PlannerStatus)
		if !status.GetLeads() || status.GetPaused().GetBy() != "ops" || status.GetPlans() != 0 {
			t.Errorf("%v", status)
		}
		s.set(func() { s.paused = false })
		s.after(3*time.Second, "m: 1 [m-0] of term 7")
		status = s.ask(&messages.GetPlanner{}).(*messages.PlannerStatus)
		if last := status.GetLast(); len(last.GetModels()) != 1 || len(last.GetReplicas()) != 0 {
			t.Errorf("the last plan lists replicas, or no models: %v", last)
		}
		h := s.ask(&messages.GetPlanHistory{}).(*messages.PlanHistory)
		if len(h.GetPlans()) != 1 || len(h.GetPlans()[0].GetSteps()) != 5 || h.GetPlans()[0].GetOutcome() != "stored" {
			t.Errorf("%v", h)
		}
		if r := s.ask(&messages.GetPlan{Number: 1}).(*messages.PlanReport); r.GetWrites()[0].GetOutcome() != "stored" {
			t.Errorf("%v", r)
		}
	})
}

// TestHoldsAndStops checks that what an operator holds or has stopped keeps its number.
func TestHoldsAndStops(t *testing.T) {
	run(t, func(s *stage) {
		s.deploy("held", 1, 2, func(d *messages.DeploymentSpec) {
			d.Replicas, d.HeldBy = new(uint32(2)), &messages.Hold{Who: "ops", What: "models.scale"}
		})
		s.deploy("stopped", 1, 2, func(d *messages.DeploymentSpec) { d.Replicas = new(uint32(0)) })
		s.play()
		s.after(time.Minute, "held: 2 [held-0 held-1] of term 7", "stopped: 0 [] of term 7")
		report := s.ask(&messages.GetPlan{}).(*messages.PlanReport)
		if m := report.GetModels()[0]; m.GetHeldBy() != "ops (models.scale)" || m.GetReplicas() != 2 {
			t.Errorf("%v", m)
		}
	})
}

// TestEndsHolds checks that a hold ends at its time, with the levels that an operator has set, and that the
// planner decides on the number from then on.
func TestEndsHolds(t *testing.T) {
	run(t, func(s *stage) {
		s.deploy("m", 1, 1, func(d *messages.DeploymentSpec) {
			d.Level = messages.Level_LEVEL_PARKED
			until := timestamppb.New(time.Now().Add(time.Minute))
			d.HeldBy = &messages.Hold{Who: "ops", What: "models.park", Until: until}
		})
		s.play()
		s.after(59*time.Second, "m: 1 [] of term 7")
		if !s.spec(0).Held() {
			t.Error("it was released early")
		}
		s.after(2*time.Second, "m: 1 [m-0] of term 7")
		if s.spec(0).Held() {
			t.Error("it is still held")
		}
		s.after(time.Minute)
	})
}
