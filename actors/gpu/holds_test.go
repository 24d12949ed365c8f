package gpu_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/gpu"
	"troupe/messages"
	"troupe/testkit"
)

// TestStatusSaysWhereWeightsAre asks for a replica that is being placed. The answer says where the node has
// its weights, and does not wait long for a folder that does not answer; a later answer is dropped.
func TestStatusSaysWhereWeightsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		s := &fakeModels{holds: map[string]string{"one": "host cache"}}
		p, pid := playWith(t, s, func(*gpu.Config) {})
		ask := func(revision string) *messages.GpuStatus {
			p.Send(pid, &messages.GetGpu{Path: "m", RevisionDigest: revision})
			synctest.Wait()
			return last[status](t, p)
		}
		if got := ask("one").GetWeightsSource(); got != "host cache" {
			t.Errorf("%q", got)
		}
		if got := ask("two").GetWeightsSource(); got != "" {
			t.Errorf("%q", got)
		}
		p.Send(pid, &messages.GetGpu{Path: "m"})
		synctest.Wait()
		if got := last[status](t, p).GetWeightsSource(); got != "" {
			t.Errorf("without a model: %q", got)
		}
		s.seeking = func() { <-hang }
		before := len(testkit.Got[status](p))
		p.Send(pid, &messages.GetGpu{Path: "m", RevisionDigest: "one"})
		time.Sleep(199 * time.Millisecond)
		synctest.Wait()
		if n := len(testkit.Got[status](p)); n != before {
			t.Errorf("%d answers before the time is over", n-before)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		close(hang)
		synctest.Wait()
		if n, got := len(testkit.Got[status](p)), last[status](t, p).GetWeightsSource(); n != before+1 || got != "" {
			t.Errorf("%d answers, the last with %q", n-before, got)
		}
	})
}
