package router_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
)

func holds(where messages.AdapterLocation) func(*messages.ReplicaAnnounced) {
	return func(a *messages.ReplicaAnnounced) {
		a.Status.Adapters = []*messages.AdapterHeld{{Name: "psalms", Revision: 7, Location: where}}
	}
}

// TestAdapterAffinity checks that every router sends a request to the replica that has its
// adapter's revision nearest to the GPU, and that the explanation names it.
func TestAdapterAffinity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		w.announce(a, "m-0", holds(messages.AdapterLocation_ADAPTER_LOCATION_DRAM))
		w.announce(b, "m-1", holds(messages.AdapterLocation_ADAPTER_LOCATION_GPU))
		w.announce(b, "m-2", holds(messages.AdapterLocation_ADAPTER_LOCATION_DISK))
		psalms := func(revision uint64) func(*messages.RouteSequence) {
			return func(q *messages.RouteSequence) {
				q.Adapter, q.AdapterSpec = "psalms", &messages.AdapterSpec{Name: "psalms", Model: "m",
					Revision: revision}
			}
		}
		for _, n := range []*node{a, b} {
			if r := w.route(n, "r", psalms(7)).GetRouted(); r.GetReplica() != "m-1" {
				t.Errorf("%s: %v", n.name, r)
			}
		}
		w.client.Send(a.PID, &messages.GetExplanation{RequestId: "r"})
		synctest.Wait()
		d := testkit.Got[*messages.Explanation](w.client)[0].GetDecisions()[0]
		if !strings.Contains(d.GetWhy(), "adapter psalms@7 on its GPU") ||
			d.GetCandidates()[0].GetAdapter() != messages.AdapterLocation_ADAPTER_LOCATION_GPU ||
			d.GetCandidates()[2].GetAdapter() != messages.AdapterLocation_ADAPTER_LOCATION_DISK {
			t.Errorf("%v", d)
		}
		w.announce(b, "m-1", holds(messages.AdapterLocation_ADAPTER_LOCATION_DISK))
		if r := w.route(a, "r2", psalms(7)).GetRouted(); r.GetReplica() != "m-0" {
			t.Errorf("evicted from m-1's GPU: %v", r)
		}
		w.route(a, "other", psalms(8))
		w.client.Send(a.PID, &messages.GetExplanation{RequestId: "other"})
		synctest.Wait()
		if d := testkit.Got[*messages.Explanation](w.client)[1].GetDecisions()[0]; !strings.Contains(d.GetWhy(),
			"psalms@8 to be read from disk") {
			t.Errorf("another revision: %s", d.GetWhy())
		}
	})
}

// TestRouterReconcilesLocalAdapters checks that, with each report, a router corrects the adapters
// of the serving replicas on its own node, and of no other replicas.
func TestRouterReconcilesLocalAdapters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		w.adapters = func(model string, held []*messages.AdapterHeld) (tell []proto.Message) {
			for _, h := range held {
				tell = append(tell, &messages.ForgetAdapter{Adapter: &messages.AdapterSpec{Name: h.GetName(),
					Model: model, Revision: h.GetRevision()}})
			}
			return tell
		}
		a, b := w.start("a"), w.start("b")
		w.setMembers(a, b)
		w.announce(a, "m-0", holds(messages.AdapterLocation_ADAPTER_LOCATION_GPU))
		w.announce(b, "m-1", nil)
		w.announce(b, "m-2", func(m *messages.ReplicaAnnounced) {
			holds(messages.AdapterLocation_ADAPTER_LOCATION_GPU)(m)
			m.Status.State = messages.ReplicaState_REPLICA_STATE_LOADING
		})
		for name, want := range map[string]int{"m-0": 1, "m-1": 0, "m-2": 0} {
			got := testkit.Got[*messages.ForgetAdapter](w.replicas[name])
			if len(got) != want || want == 1 && got[0].GetAdapter().Key() != "psalms@7" {
				t.Errorf("%s received %v", name, got)
			}
		}
		w.announce(a, "m-0", nil)
		if got := testkit.Got[*messages.ForgetAdapter](w.replicas["m-0"]); len(got) != 1 {
			t.Errorf("a replica without adapters received %v", got)
		}
	})
}
