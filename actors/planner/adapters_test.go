package planner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/planner"
	"troupe/messages"
	"troupe/testkit"
)

// serving returns a replica that serves with some adapters on its device.
func serving(name string, actor *actor.PID, pages uint32, held ...string) *messages.ReplicaStatus {
	r := &messages.ReplicaStatus{Name: name, Model: "m", State: messages.ReplicaState_REPLICA_STATE_SERVING,
		Actor:         &messages.ActorRef{Address: actor.GetAddress(), Id: actor.GetId()},
		AdapterCounts: &messages.AdapterCounts{Pages: pages}}
	for _, name := range held {
		r.Adapters = append(r.Adapters, &messages.AdapterHeld{Name: name, Revision: 1,
			State: messages.AdapterState_ADAPTER_STATE_IDLE})
	}
	return r
}

// TestPrefetchesPopularAdapters checks that a replica that begins to serve learns within moments which adapters
// are popular at all nodes, and others only what they lack. Adapters that are not registered any longer are left
// out.
func TestPrefetchesPopularAdapters(t *testing.T) {
	run(t, func(s *stage) {
		s.deploy("m", 1, 1, nil)
		at := func(adapter string, uses float64) *messages.AdapterDemand {
			return &messages.AdapterDemand{Model: "m", Adapter: adapter, Uses: uses}
		}
		s.adapters = planner.Adapters{
			Uses: func() []*messages.AdapterDemand {
				return []*messages.AdapterDemand{at("x@1", 10), at("y@1", 3), at("gone@1", 90)}
			},
			Registered: func(string) (all []*messages.AdapterSpec) {
				for _, name := range []string{"x", "y", "z", "unused"} {
					all = append(all, &messages.AdapterSpec{Name: name, Model: "m", Revision: 1, Path: "/" + name,
						Bytes: 3 * mib})
				}
				return all
			},
		}
		s.play()
		replica := testkit.NewPeer(t, s.sys, "m-0", nil)
		other := testkit.NewPeer(t, s.sys, "m-1", nil)
		s.after(5*time.Second, "m: 1 [m-0] of term 7")
		s.sys.Root.Send(s.pid, &messages.AdaptersUsed{Node: "b", Adapters: []*messages.AdapterDemand{at("z@1", 20),
			at("y@1", 4)}})
		s.set(func() {
			s.replicas = []*messages.ReplicaStatus{serving("m-0", replica.PID, 5),
				serving("m-1", other.PID, 8, "z", "x", "y")}
		})
		s.after(2 * time.Second)
		all := testkit.Got[*messages.PrefetchAdapters](replica)
		if len(all) != 1 || len(all[0].GetAdapters()) != 2 {
			t.Fatalf("%v", all)
		}
		for i, want := range []struct {
			name string
			uses float64
		}{{"x", 0.5}, {"z", 1}} { // of two replicas, and of a minute
			a := all[0].GetAdapters()[i]
			if a.GetAdapter().GetName() != want.name || a.GetUses() != want.uses || a.GetAdapter().GetPath() == "" {
				t.Errorf("%v, want %v", a, want)
			}
		}
		if n := len(testkit.Got[*messages.PrefetchAdapters](other)); n != 0 {
			t.Errorf("a replica that has all of them got %d commands", n)
		}
		report := s.ask(&messages.GetPlan{}).(*messages.PlanReport)
		step := report.GetSteps()[3]
		if step.GetName() != "prefetch" || step.GetResult() != "2 adapters for 1 replica" {
			t.Errorf("%v", report.GetSteps())
		}
		s.set(func() { s.paused = true })
		s.after(5 * time.Minute)
		synctest.Wait()
		if n := len(testkit.Got[*messages.PrefetchAdapters](replica)); n != 1 {
			t.Errorf("it got %d commands, one before the pause", n)
		}
	})
}
