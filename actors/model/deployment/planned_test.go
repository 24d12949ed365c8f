package deployment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
)

// expectAssigned checks the progress that the deployment reports of its replicas.
func (s *stage) expectAssigned(want ...string) {
	s.t.Helper()
	var got []string
	for _, a := range s.lastStatus().GetAssigned() {
		progress := strings.TrimPrefix(a.GetProgress().String(), "ASSIGNMENT_PROGRESS_")
		text := fmt.Sprintf("%s@%s/%s %s", a.GetReplica(), a.GetNode(), strings.Join(a.GetGpus(), "+"), progress)
		if a.GetFailure() != "" {
			text += ": " + a.GetFailure()
		}
		if a.GetAt() != nil {
			text += fmt.Sprint(" ", a.GetAt().GetSeconds())
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("assigned: %q, want %q", got, want)
	}
}

// TestFollowsAssignments checks that a deployment waits for the planner, starts what is assigned, stops what is
// not, and reports both.
func TestFollowsAssignments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.plan(2, nil)
		s.expectReplicas("a")
		s.expectReplicas("b")
		status := s.lastStatus()
		if status.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_PENDING ||
			!strings.Contains(status.GetDetail(), "waits for the planner") {
			t.Errorf("without a plan: %v, %s", status.GetState(), status.GetDetail())
		}
		if need := status.GetNeed(); need.GetWeights() != needed || need.GetFixed() != 0 {
			t.Errorf("without a plan: need is %v", need)
		}
		s.plan(2, []string{"m-3@b/gpu-0", "m-5@a/gpu-0"})
		s.expectReplicas("a", "m-5")
		s.expectReplicas("b", "m-3")
		s.expectAssigned("m-3@b/gpu-0 UP 1000", "m-5@a/gpu-0 UP 1000")
		s.plan(1, []string{"m-3@b/gpu-0"})
		s.expectReplicas("a")
		s.expectReplicas("b", "m-3")
		s.expectAssigned("m-3@b/gpu-0 UP 1000")
		s.plan(1, []string{})
		s.expectReplicas("b")
		s.expectAssigned()
	})
}

// TestReportsFailedAssignments checks that a replica that fails to load, or is divided among devices, is reported
// and not tried again.
func TestReportsFailedAssignments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.start(1)
		s.hosts["a"].failsToLoad = true
		s.plan(2, []string{"m-0@a/gpu-0", "m-1@a/gpu-0+gpu-1"})
		s.expectAssigned("m-0@a/gpu-0 ASSIGNED: replica m-0 failed to load 1000",
			"m-1@a/gpu-0+gpu-1 ASSIGNED: replica m-1 divided among 2 devices is not supported by the native backend; "+
				"deploy the model with tensor_parallel 1 1000")
		s.pass(time.Minute)
		s.hosts["a"].with(func(h *host) {
			if h.starts != 1 {
				t.Errorf("it was started %d times", h.starts)
			}
		})
	})
}

// TestPlacementRefused checks that a deployment has the planner's reason for missing replicas as its failure.
func TestPlacementRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.start(1)
		s.plan(1, []string{})
		refuse := func(revision uint64, missing uint32) *messages.DeploymentStatus {
			s.router.Send(s.pid, &messages.PlacementRefused{Name: "m", Revision: revision, Missing: missing,
				Refused: &messages.Refused{
					Reason: messages.Reason_REASON_NO_MEMORY, Detail: "no device has room",
					Memory: &messages.MemoryShortage{Model: "p", Bytes: 7},
				}})
			s.pass(time.Second)
			return s.lastStatus()
		}
		if got := refuse(s.revision+1, 1); got.GetFailure() != nil {
			t.Errorf("of another revision: %v", got.GetFailure())
		}
		got := refuse(s.revision, 1)
		if f := got.GetFailure(); f.GetDetail() != "no device has room" || f.GetMemory().GetBytes() != 7 ||
			got.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_FAILED {
			t.Errorf("%v: %v", got.GetState(), f)
		}
		if got := refuse(s.revision, 0); got.GetFailure() != nil {
			t.Errorf("nothing is missing: %v", got.GetFailure())
		}
	})
}

// TestPlannerWakes checks that a deployment reports the requests that wait, and does not wake itself; and that a
// wake by the planner is reported, with its time.
func TestPlannerWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.start(1)
		s.sleeps = true
		s.storeLevel = func() error { t.Error("it stores a level"); return nil }
		s.plan(0, []string{})
		s.router.Send(s.pid, &messages.WakeModel{Name: "m", Node: "a", Waiting: 3, Wakes: 2, Revision: s.revision,
			Oldest: durationpb.New(7 * time.Second)})
		s.pass(time.Second)
		status := s.lastStatus()
		if age := status.GetOldestWaiting().AsDuration(); status.GetWaitingToWake() != 3 || status.GetWakes() != 2 ||
			age < 7*time.Second || age > 8*time.Second {
			t.Errorf("%d wait, %d wake, the oldest for %s", status.GetWaitingToWake(), status.GetWakes(), age)
		}
		s.plan(1, []string{"m-0@a/gpu-0"})
		if s.woken != 1 || len(s.awake) != 1 || s.awake[0] > 5*time.Second {
			t.Errorf("%d wakes, awake after %v", s.woken, s.awake)
		}
		s.plan(0, []string{})
		s.expectReplicas("a")
		s.plan(1, []string{"m-0@a/gpu-0"})
		if s.woken != 1 {
			t.Errorf("%d wakes, though no request waited for the second one", s.woken)
		}
	})
}

// TestKeepsReplicasUntilPlanned checks that a deployment that an earlier version placed keeps its replicas until
// the planner has adopted them.
func TestKeepsReplicasUntilPlanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.start(1)
		s.apply(2)
		s.expectReplicas("a", "m-0")
		s.expectReplicas("b", "m-1")
		if need := s.lastStatus().GetNeed(); need.GetWeights() != needed {
			t.Errorf("need is %v", need)
		}
		s.sys.Root.Stop(s.pid)
		s.start(2)
		s.plan(1, nil)
		s.pass(time.Minute)
		s.expectReplicas("a", "m-0")
		s.expectReplicas("b", "m-1")
		s.expectAssigned("m-0@a/gpu-0 UP", "m-1@b/gpu-0 UP")
		s.plan(1, []string{"m-1@b/gpu-0"})
		s.expectReplicas("a", "m-0") // it came after the plan was made
		s.expectAssigned("m-0@a/gpu-0 UP", "m-1@b/gpu-0 UP 1000")
		s.plan(1, []string{"m-1@b/gpu-0"}, "m-0")
		s.expectReplicas("a")
		s.expectReplicas("b", "m-1")
	})
}
