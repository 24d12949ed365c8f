package router_test

import (
	"testing"
	"testing/synctest"

	"troupe/messages"
	"troupe/testkit"
)

// TestDeploymentCacheSurvivesCrash: what is deployed can be read beside the router, also while a crash has it learn everything anew; what was deleted meanwhile is gone then.
func TestDeploymentCacheSurvivesCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		crash := &testkit.Crash{On: "*messages.GetTable", Times: 1}
		n := w.start("n1", crash.Middleware)
		w.store.Send(n.PID, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "other"}, Revision: 8})
		w.store.Send(n.PID, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "short"}, Revision: 9})
		w.store.Send(n.PID, &messages.RemoveDeployment{Name: "short"})
		synctest.Wait()
		if n.cache.Find("m").GetRevision() != 7 || n.cache.Find("other").GetRevision() != 8 ||
			n.cache.Find("short") != nil {
			t.Errorf("stored: %v, %v, %v", n.cache.Find("m"), n.cache.Find("other"), n.cache.Find("short"))
		}
		w.client.Send(n.PID, &messages.GetTable{})
		synctest.Wait()
		if crash.Crashed() != 1 || n.cache.Find("m") == nil {
			t.Error("it did not crash, or lost what is stored")
		}
		w.store.Send(n.PID, &messages.ListDeploymentsResult{Names: []string{"m"}})
		synctest.Wait()
		if n.cache.Find("m") == nil || n.cache.Find("other") != nil {
			t.Errorf("after the crash: %v, %v", n.cache.Find("m"), n.cache.Find("other"))
		}
	})
}
