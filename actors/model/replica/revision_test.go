package replica_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	core "troupe/core/replica"
	"troupe/messages"
	"troupe/testkit"
)

const (
	loadingState = messages.ReplicaState_REPLICA_STATE_LOADING
	servingState = messages.ReplicaState_REPLICA_STATE_SERVING
	differ       = messages.Reason_REASON_WEIGHTS_DIFFER
)

// twoRevisions returns a cluster whose replicas serve different revisions.
func twoRevisions(t *testing.T) *cluster {
	return buildCluster(&cluster{
		t: t, settle: synctest.Wait, stepTime: stepTime, bulk: &bulk{chunkTime: time.Millisecond},
		revisions: map[string]string{"m-0": "one", "m-1": "two"},
	}, roomy, roomy)
}

// TestMigrateRefusedByOtherRevision checks that a running sequence does not migrate to a replica
// with another revision.
func TestMigrateRefusedByOtherRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := twoRevisions(t)
		seq := sampled(5, 60, 60)
		want := c.reference(seq)
		got := c.open(seq)
		c.waitFor("tokens", func() bool { return len(got.Output()) >= 3 })
		m := c.move(c.a, c.b, got.id).GetSequences()
		if len(m) != 1 || m[0].GetMoved() || !strings.Contains(m[0].GetDetail(), "m-1 serves revision two") ||
			!strings.Contains(m[0].GetDetail(), "revision one") {
			t.Errorf("%v", m)
		}
		c.checkOutcome(got, want)
		c.checkEmpty()
	})
}

// TestSubmitRefusedByOtherRevision checks that a sequence with output is not continued with another
// revision, and that one without output is accepted.
func TestSubmitRefusedByOtherRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := twoRevisions(t)
		submit := func(id, revision string, output ...uint32) *messages.SubmitSequenceResult {
			c.operator.Send(c.b.PID, &messages.SubmitSequence{RequestId: id, Sequence: greedy(5, 8, 4), Output: output,
				RevisionDigest: revision})
			c.settle()
			all := testkit.Got[*messages.SubmitSequenceResult](c.operator)
			return all[len(all)-1]
		}
		if r := submit("other", "one", 1); r.GetRefused().GetReason() != differ {
			t.Errorf("%v", r)
		}
		for id, r := range map[string]*messages.SubmitSequenceResult{
			"same": submit("same", "two", 1), "new": submit("new", "one"),
			"from an earlier version": submit("before", "", 1),
		} {
			if r.GetAccepted().GetRevisionDigest() != "two" {
				t.Errorf("%s: %v", id, r)
			}
		}
	})
}

// TestAdapterForOtherWeightsIsRefused checks that an adapter registered for other weights is
// refused, and not loaded if it is pinned.
func TestAdapterForOtherWeightsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newShippedCluster(t, roomy, roomy)
		for base, refused := range map[string]bool{sameRevision: false, "": false, "two": true} {
			seq := withAdapter("psalms", greedy(5, 8, 4))
			seq.AdapterSpec.BaseDigest, seq.AdapterSpec.Pinned = base, true
			c.operator.Send(c.a.PID, &messages.SubmitSequence{RequestId: "r" + base, Sequence: seq})
			c.settle()
			all := testkit.Got[*messages.SubmitSequenceResult](c.operator)
			r := all[len(all)-1].GetRefused()
			if (r != nil) != refused || refused && (r.GetReason() != differ ||
				!strings.Contains(r.GetDetail(), "register it again")) {
				t.Errorf("base %q: %v", base, r)
			}
		}
		spec := withAdapter("psalms", greedy(5, 8, 4)).GetAdapterSpec()
		spec.BaseDigest, spec.Pinned = "two", true
		c.operator.Send(c.b.PID, &messages.ApplyAdapter{Adapter: spec})
		time.Sleep(5 * time.Second)
		if held := c.adapters(c.b); len(held) != 0 {
			t.Errorf("%v", held)
		}
	})
}

// TestServesOnlyConfirmedRevision checks that a replica whose revision was not requested by digest
// reports it and waits for the deployment's confirmation. After a crash it serves immediately.
func TestServesOnlyConfirmedRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &positionEngine{}
		crash := &testkit.Crash{On: "*messages.CancelSequence", Times: 1}
		s := newHarness(t, c, func(n int) *messages.LoadModelResult {
			r := loaded(n)
			r.GetLoaded().WeightsDigest, r.GetLoaded().RevisionDigest = "w", "one"
			return r
		}, crash.Middleware)
		last := func() *messages.ReplicaStatus {
			all := testkit.Got[*messages.ReplicaChanged](s.deploy)
			return all[len(all)-1].GetStatus()
		}
		before := len(testkit.Got[*messages.ReplicaChanged](s.deploy))
		time.Sleep(3 * time.Second)
		if n := len(testkit.Got[*messages.ReplicaChanged](s.deploy)) - before; n < 2 ||
			last().GetState() != loadingState ||
			last().GetRevisionDigest() != "one" || last().GetWeightsDigest() != "w" {
			t.Errorf("%d reports, the last %v", n, last())
		}
		s.deploy.Send(s.replica, &messages.ConfirmRevision{RevisionDigest: "two"})
		synctest.Wait()
		if last().GetState() != loadingState {
			t.Errorf("another revision: %v", last())
		}
		s.deploy.Send(s.replica, &messages.ConfirmRevision{RevisionDigest: "one"})
		synctest.Wait()
		if last().GetState() != servingState {
			t.Errorf("%v", last())
		}
		s.client.Send(s.replica, &messages.CancelSequence{RequestId: "crash"})
		time.Sleep(5 * time.Second)
		if crash.Crashed() != 1 || last().GetIncarnation() != 2 || last().GetState() != servingState {
			t.Errorf("crashed %d times, %v", crash.Crashed(), last())
		}
		s.submit("r", spec(3, 4))
		time.Sleep(time.Second)
		s.checkServed("r", 3, 4)
	})
}

// TestStatusNamesFoundRevision checks that a replica whose load was refused reports the revision
// that was found.
func TestStatusNamesFoundRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, &positionEngine{}, func(int) *messages.LoadModelResult {
			return &messages.LoadModelResult{FoundRevision: "two", Outcome: &messages.LoadModelResult_Refused{
				Refused: &messages.Refused{Reason: differ, Detail: "so it is"},
			}}
		})
		all := testkit.Got[*messages.ReplicaChanged](s.deploy)
		last := all[len(all)-1]
		if last.GetStatus().GetState() != messages.ReplicaState_REPLICA_STATE_FAILED ||
			last.GetStatus().GetFoundRevision() != "two" || last.GetFailure().GetReason() != differ {
			t.Errorf("%v", last)
		}
	})
}

// TestReportsFolderFault checks that a replica whose model folder is damaged or missing continues
// to serve, and reports the fault until it is repaired, or the weights are found elsewhere.
func TestReportsFolderFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fault atomic.Value
		fault.Store(core.Folder{})
		c := buildCluster(&cluster{t: t, settle: synctest.Wait, stepTime: stepTime,
			bulk: &bulk{chunkTime: time.Millisecond},
			checkFolder: func(revision string) core.Folder {
				if revision != sameRevision {
					t.Errorf("checked revision %q", revision)
				}
				return fault.Load().(core.Folder)
			}}, roomy, roomy)
		for _, of := range []struct {
			core.Folder
			want string
		}{
			{},
			{core.Folder{Fault: "the folder is gone"}, "the folder is gone"},
			{core.Folder{Fault: "the folder is gone", Elsewhere: "host cache"}, ""},
			{core.Folder{Fault: "other files"}, "other files"},
			{},
		} {
			fault.Store(of.Folder)
			time.Sleep(6 * time.Second)
			if s := c.status(c.a); s.GetFolderFault() != of.want || s.GetState() != servingState {
				t.Errorf("%+v: %v", of, s)
			}
		}
	})
}
