package deployment_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// storedStage is a stage with the stored spec of its deployment.
type storedStage struct {
	*stage
	spec    *messages.DeploymentSpec
	fail    error // result of storing digests
	records int
}

// playStored starts a deployment whose spec is stored, with assignments.
func playStored(s *stage, assigned ...string) *storedStage {
	x := &storedStage{stage: s, spec: &messages.DeploymentSpec{Name: "m", Path: "p", BlockTokens: new(uint32(16)),
		Replicas: new(uint32(len(assigned))), Deploy: 1, Assignments: assignments(assigned, 1000)}}
	s.record = func(deploy uint64, weights, revision string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		x.records++
		if x.fail != nil || x.spec.GetRevisionDigest() != "" || x.spec.GetDeploy() != deploy {
			return x.fail
		}
		x.spec = proto.CloneOf(x.spec)
		x.spec.WeightsDigest, x.spec.RevisionDigest = weights, revision
		x.put()
		return nil
	}
	s.start(1)
	return x
}

// put sends the stored spec to the deployment.
func (x *storedStage) put() {
	x.revision++
	x.router.Send(x.pid, &messages.ApplyDeployment{Spec: x.spec, Revision: x.revision})
}

func (x *storedStage) change(f func(*messages.DeploymentSpec)) {
	x.mu.Lock()
	x.spec = proto.CloneOf(x.spec)
	f(x.spec)
	x.put()
	x.mu.Unlock()
	x.pass(20 * time.Second)
}

// serving returns the number of replicas of a host that may serve.
func (h *host) serving() (n int) {
	h.with(func(h *host) {
		for name := range h.replicas {
			if h.confirmed[name] || h.files == "" || h.specs[name].GetRevisionDigest() == h.files {
				n++
			}
		}
	})
	return n
}

// TestFirstReplicaSetsRevision starts replicas on two nodes with different files. The replica whose
// digests are stored first serves, and the other one does not. The status reports the difference
// until the files are equal.
func TestFirstReplicaSetsRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a", "b")
		s.hosts["a"].files, s.hosts["b"].files = "one", "two"
		x := playStored(s, "m-0@a/gpu-0", "m-1@b/gpu-0")
		x.change(func(*messages.DeploymentSpec) {})
		winner, loser := s.hosts["a"], s.hosts["b"]
		if x.spec.GetRevisionDigest() == "two" {
			winner, loser = loser, winner
		}
		if x.spec.GetRevisionDigest() == "" || winner.serving() != 1 || loser.serving() != 0 {
			t.Errorf("%v: %d and %d replicas serve", x.spec, winner.serving(), loser.serving())
		}
		d := s.lastStatus()
		if d.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED ||
			d.GetFailure().GetReason() != messages.Reason_REASON_WEIGHTS_DIFFER {
			t.Errorf("%v", d)
		}
		for _, part := range []string{"revision " + winner.files, "revision " + loser.files, "node " + loser.name,
			" p ",
			"run models.deploy"} {
			if !strings.Contains(d.GetDetail(), part) {
				t.Errorf("%q lacks %q", d.GetDetail(), part)
			}
		}
		loser.with(func(h *host) { h.files = winner.files })
		x.change(func(d *messages.DeploymentSpec) {
			d.Assignments = assignments([]string{"m-0@a/gpu-0", "m-1@b/gpu-0"}, 1001)
		})
		if d := s.lastStatus(); d.GetState() != ready || winner.serving() != 1 || loser.serving() != 1 {
			t.Errorf("%v", d)
		}
	})
}

// TestDeployOutdatesReplicasWithOtherFiles checks that after a models.deploy the old replicas are reported as
// outdated until the first new one has loaded its files. If the files turn out to be equal, they no longer are.
func TestDeployOutdatesReplicasWithOtherFiles(t *testing.T) {
	for name, files := range map[string]string{"other files": "two", "the same files": "one"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t, "a")
				a := s.hosts["a"]
				a.files = "one"
				x := playStored(s, "m-0@a/gpu-0", "m-1@a/gpu-0")
				x.change(func(*messages.DeploymentSpec) {})
				s.expectReplicas("a", "m-0", "m-1")
				a.with(func(h *host) { h.files, h.confirmed = files, map[string]bool{"m-0": true, "m-1": true} })
				x.change(func(d *messages.DeploymentSpec) { d.Deploy, d.WeightsDigest, d.RevisionDigest = 2, "", "" })
				expect := func(outdated bool) {
					t.Helper()
					if d := s.lastStatus(); d.GetState() != ready || d.GetAssigned()[0].GetOutdated() != outdated ||
						d.GetAssigned()[1].GetOutdated() != outdated {
						t.Errorf("%v", d)
					}
					for _, a := range s.lastStatus().GetAssigned()[:2] {
						if a.GetRevisionDigest() != "one" {
							t.Errorf("%v", a)
						}
					}
				}
				expect(true)
				x.change(func(d *messages.DeploymentSpec) {
					d.Assignments = assignments([]string{"m-0@a/gpu-0", "m-1@a/gpu-0", "m-2@a/gpu-0"}, 1000)
				})
				if x.spec.GetRevisionDigest() != files || len(a.replicas) != 3 {
					t.Errorf("%v\n%v", x.spec, s.lastStatus())
				}
				expect(files != "one")
			})
		})
	}
}

// TestRecordIsRetried checks that no replica serves before its digests are stored, and that storing
// them is retried.
func TestRecordIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.hosts["a"].files = "one"
		x := playStored(s, "m-0@a/gpu-0")
		x.fail = errors.New("no store")
		x.change(func(*messages.DeploymentSpec) {})
		if s.hosts["a"].serving() != 0 || x.records < 2 {
			t.Errorf("%d serve after %d attempts", s.hosts["a"].serving(), x.records)
		}
		x.mu.Lock()
		x.fail = nil
		x.mu.Unlock()
		s.pass(5 * time.Second)
		if s.hosts["a"].serving() != 1 || s.lastStatus().GetState() != ready {
			t.Errorf("%v", s.lastStatus())
		}
	})
}

// TestFolderFaultDegrades checks that a deployment is degraded while a serving replica could not be
// loaded again.
func TestFolderFaultDegrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, "a")
		s.start(1)
		s.apply(1)
		a := s.hosts["a"]
		report := func(fault string) *messages.DeploymentStatus {
			status := a.replica("m-0", &messages.GetReplica{}).(*messages.ReplicaStatus)
			status.FolderFault = fault
			s.router.Send(s.pid, &messages.ReplicaChanged{Status: status})
			s.pass(2 * time.Second)
			return s.lastStatus()
		}
		degraded := messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED
		if d := report("m-0 could not be loaded again"); d.GetState() != degraded ||
			d.GetDetail() != "1 of 1 replicas serve, but m-0 could not be loaded again" {
			t.Errorf("%v", d)
		}
		if d := report(""); d.GetState() != ready {
			t.Errorf("%v", d)
		}
	})
}
