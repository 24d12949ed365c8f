package router_test

import (
	"testing"
	"testing/synctest"

	"troupe/messages"
	"troupe/testkit"
)

// TestStored: what is deployed can be read beside the router, also while a crash has it learn everything anew; what was deleted meanwhile is gone then.
func TestStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		crash := &testkit.Crash{On: "*messages.GetTable", Times: 1}
		n := w.start("n1", crash.Middleware)
		w.store.Send(n.PID, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "other"}, Revision: 8})
		w.store.Send(n.PID, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "short"}, Revision: 9})
		w.store.Send(n.PID, &messages.RemoveDeployment{Name: "short"})
		synctest.Wait()
		if n.stored.Find("m").GetRevision() != 7 || n.stored.Find("other").GetRevision() != 8 || n.stored.Find("short") != nil {
			t.Errorf("stored: %v, %v, %v", n.stored.Find("m"), n.stored.Find("other"), n.stored.Find("short"))
		}
		w.client.Send(n.PID, &messages.GetTable{})
		synctest.Wait()
		if crash.Crashed() != 1 || n.stored.Find("m") == nil {
			t.Error("it did not crash, or lost what is stored")
		}
		w.store.Send(n.PID, &messages.ListDeploymentsResult{Names: []string{"m"}})
		synctest.Wait()
		if n.stored.Find("m") == nil || n.stored.Find("other") != nil {
			t.Errorf("after the crash: %v, %v", n.stored.Find("m"), n.stored.Find("other"))
		}
	})
}
