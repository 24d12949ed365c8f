package router_test

import (
	"maps"
	"testing"
	"testing/synctest"

	"troupe/messages"
	"troupe/testkit"
)

// TestViewCountsWaitingRequests checks that a router's view has the requests that wait there, by model.
func TestViewCountsWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		a := w.start("a")
		w.setMembers(a)
		expect := func(want map[string]uint32) {
			t.Helper()
			w.client.Send(a.PID, &messages.GetClusterView{})
			synctest.Wait()
			views := testkit.Got[*messages.ClusterView](w.client)
			if got := views[len(views)-1].GetWaiting(); !maps.Equal(got, want) {
				t.Errorf("%v wait, want %v", got, want)
			}
		}
		expect(nil)
		w.route(a, "1", nil)
		w.route(a, "2", nil)
		expect(map[string]uint32{"m": 2})
		w.client.Send(a.PID, &messages.CancelRoute{RequestId: "1"})
		expect(map[string]uint32{"m": 1})
	})
}
