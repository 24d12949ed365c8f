package router_test

import (
	"testing"
	"testing/synctest"

	"troupe/messages"
	"troupe/testkit"
)

// TestOutputStaysWithRevision checks that a request with output goes only to replicas with the same
// files. Without such a replica it waits while the files are deployed, and fails once others are.
func TestOutputStaysWithRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a := w.start("a")
		w.setMembers(a)
		deployed := func(digest string) {
			w.store.Send(a.PID, &messages.ApplyDeployment{Revision: 8, Spec: &messages.DeploymentSpec{
				Name: "m", MaxWaiting: new(uint32(8)), RevisionDigest: digest + "-0123456789", WeightsDigest: digest,
			}})
		}
		ask := func(revision string) *messages.RouteSequenceResult {
			return w.route(a, "r", func(q *messages.RouteSequence) { q.RevisionDigest = revision })
		}
		deployed("two")
		w.announce(a, "m-0", func(r *messages.ReplicaAnnounced) { r.Status.RevisionDigest = "two-0123456789" })
		for _, revision := range []string{"", "two-0123456789"} {
			if r := ask(revision); r.GetRouted().GetReplica() != "m-0" {
				t.Errorf("output of revision %q: %v", revision, r)
			}
		}
		if r := ask("one-0123456789").GetRefused(); r.GetReason() != messages.Reason_REASON_WEIGHTS_DIFFER {
			t.Errorf("%v", r)
		}
		deployed("one")
		if r := ask("one-0123456789"); r.GetWaiting() == nil {
			t.Errorf("%v", r)
		}
		w.client.Send(a.PID, &messages.GetDeployment{Name: "m"})
		synctest.Wait()
		if d := lastStatus(w); d.GetWeights() != "one" || d.GetRevisionShort() != "one-01234567" {
			t.Errorf("%v", d)
		}
	})
}

// lastStatus returns the last DeploymentStatus that the client received.
func lastStatus(w *testCluster) *messages.DeploymentStatus {
	all := testkit.Got[*messages.DeploymentStatus](w.client)
	return all[len(all)-1]
}
