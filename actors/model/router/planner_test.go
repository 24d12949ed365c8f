package router_test

import (
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
)

// TestTellsPlannerOfChanges checks that the planner learns at once what may call for a plan, and nothing of
// reports that repeat what is known or only have other figures.
func TestTellsPlannerOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		w.planner = testkit.NewPeer(t, w.sys, "planner", nil)
		a := w.start("a")
		w.setMembers(a)
		told := len(testkit.Got[*messages.ClusterChanged](w.planner))
		if told == 0 {
			t.Error("the planner does not know of the deployment and the node")
		}
		status := &messages.DeploymentStatus{Spec: specOf("m"), Node: "a", Term: 1}
		for _, step := range []struct {
			name   string
			change func(*messages.DeploymentStatus)
			tells  bool
		}{
			{"its first report", func(*messages.DeploymentStatus) {}, true},
			{"the same again", func(*messages.DeploymentStatus) {}, false},
			{"its memory", func(s *messages.DeploymentStatus) { s.Need = &messages.ReplicaNeed{Min: 1} }, true},
			{"requests that wait", func(s *messages.DeploymentStatus) { s.Wakes = 1 }, true},
			{"more of them", func(s *messages.DeploymentStatus) { s.Wakes = 2 }, false},
			{"a replica", func(s *messages.DeploymentStatus) {
				s.Assigned = []*messages.AssignmentStatus{{Replica: "m-0", Node: "a"}}
			}, true},
			{"its start", func(s *messages.DeploymentStatus) {
				s.Assigned[0].Progress = messages.AssignmentProgress_ASSIGNMENT_PROGRESS_STARTING
			}, false},
			{"its service", func(s *messages.DeploymentStatus) {
				s.Assigned[0].Progress = messages.AssignmentProgress_ASSIGNMENT_PROGRESS_UP
			}, true},
			{"the quarantine of its device", func(s *messages.DeploymentStatus) {
				s.Assigned[0].Quarantined = true
			}, true},
			{"its failure", func(s *messages.DeploymentStatus) { s.Assigned[0].Failure = "out of memory" }, true},
			{"its end", func(s *messages.DeploymentStatus) { s.Assigned = nil }, true},
			{"no request that waits", func(s *messages.DeploymentStatus) { s.Wakes = 0 }, false},
		} {
			status = proto.CloneOf(status)
			step.change(status)
			w.store.Send(a.PID, &messages.RouteDeployment{Status: status})
			synctest.Wait()
			now := len(testkit.Got[*messages.ClusterChanged](w.planner))
			if tells := now > told; tells != step.tells {
				t.Errorf("%s: told the planner: %v", step.name, tells)
			}
			told = now
		}
		w.store.Send(a.PID, &messages.RemoveDeployment{Name: "m"})
		synctest.Wait()
		if len(testkit.Got[*messages.ClusterChanged](w.planner)) == told {
			t.Error("the planner does not know that the deployment was deleted")
		}
	})
}
