package planner_test

import (
	"testing"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

// TestPlansSoonAfterDevice checks that a device without replicas is used soon after its quarantine has ended, and that
// a planner that does not lead tells the one that does.
func TestPlansSoonAfterDevice(t *testing.T) {
	run(t, func(s *stage) {
		s.deploy("m", 1, 1, nil)
		s.play()
		s.after(5*time.Second, "m: 1 [m-0] of term 7")
		plans := func() uint64 { return s.ask(&messages.GetPlanner{}).(*messages.PlannerStatus).GetPlans() }
		s.after(20 * time.Second)
		before := plans()
		changed := &messages.DeviceChanged{Node: "a", Gpu: "gpu-1"}
		s.sys.Root.Send(s.pid, changed)
		s.after(200 * time.Millisecond)
		if n := plans() - before; n != 1 {
			t.Errorf("%d plans after a change of a device", n)
		}
		s.set(func() { s.term = 0 })
		s.sys.Root.Send(s.pid, changed)
		s.sys.Root.Send(s.pid, &messages.DeviceChanged{Node: "c", Gpu: "gpu-0"}) // it has been passed on once
		s.after(time.Second)
		if told := testkit.Got[*messages.DeviceChanged](s.other); len(told) != 1 || told[0].GetGpu() != "gpu-1" {
			t.Errorf("the planner that leads learned of %v", told)
		}
	})
}
