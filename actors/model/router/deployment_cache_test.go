package router_test

import (
	"testing"
	"testing/synctest"

	"troupe/messages"
	"troupe/testkit"
)

// TestDeploymentCacheSurvivesCrash checks that the cache can be read while a crashed router
// recovers, and that the router then drops the deployments that were deleted in the meantime.
func TestDeploymentCacheSurvivesCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		crash := &testkit.Crash{On: "*messages.GetClusterView", Times: 1}
		n := w.start("n1", crash.Middleware)
		w.store.Send(n.PID, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "other"}, Revision: 8})
		w.store.Send(n.PID, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "short"}, Revision: 9})
		w.store.Send(n.PID, &messages.RemoveDeployment{Name: "short"})
		synctest.Wait()
		if n.cache.Find("m").GetRevision() != 7 || n.cache.Find("other").GetRevision() != 8 ||
			n.cache.Find("short") != nil {
			t.Errorf("stored: %v, %v, %v", n.cache.Find("m"), n.cache.Find("other"), n.cache.Find("short"))
		}
		w.client.Send(n.PID, &messages.GetClusterView{})
		synctest.Wait()
		if crash.Crashed() != 1 || n.cache.Find("m") == nil {
			t.Error("no crash, or the cache is empty after it")
		}
		w.store.Send(n.PID, &messages.ListDeploymentsResult{Names: []string{"m"}})
		synctest.Wait()
		if n.cache.Find("m") == nil || n.cache.Find("other") != nil {
			t.Errorf("after the crash: %v, %v", n.cache.Find("m"), n.cache.Find("other"))
		}
	})
}
