package router_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/demand"
	"troupe/messages"
	"troupe/testkit"
)

// heldJobs is a runtime whose jobs start when the test says so.
type heldJobs struct {
	supervise.Runtime
	mu   sync.Mutex
	jobs []func()
}

func (h *heldJobs) Go(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs = append(h.jobs, f)
}

// release starts the jobs that are held, and returns their number.
func (h *heldJobs) release() int {
	h.mu.Lock()
	jobs := h.jobs
	h.jobs = nil
	h.mu.Unlock()
	for _, f := range jobs {
		f()
	}
	synctest.Wait()
	return len(jobs)
}

// TestViewIsMergedBesides checks that a router routes requests while the demand of a view is merged, that one job at a
// time does it, and that all who asked meanwhile share the next one.
func TestViewIsMergedBesides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := &heldJobs{Runtime: supervise.System}
		sys := testkit.System(t)
		supervise.SetRuntime(sys, held)
		w := playOn(t, sys)
		a := w.start("a")
		w.setMembers(a)
		w.announce(a, "m-0", nil)
		var ttft demand.Sketch
		ttft.Add(0.5)
		report := &messages.DemandReported{Observed: durationpb.New(demand.Length),
			Models: []*messages.ModelDemand{{Model: "m", Arrivals: 60, Ttft: ttft.Encode()}}}
		w.client.Send(a.PID, report)
		w.client.Send(a.PID, &messages.GetClusterView{})
		synctest.Wait()
		if n := len(testkit.Got[*messages.ClusterView](w.client)); n != 1 || held.release() != 0 {
			t.Fatalf("%d views with the demand for one model, want one without a job", n)
		}
		report = proto.CloneOf(report)
		for i := range 1000 {
			report.Models = append(report.Models, &messages.ModelDemand{Model: fmt.Sprint("other-", i), Arrivals: 1})
		}
		w.client.Send(a.PID, report)
		for range 3 {
			w.client.Send(a.PID, &messages.GetClusterView{})
		}
		w.expectRoute(a, "m-0")
		if n := len(testkit.Got[*messages.ClusterView](w.client)); n != 1 {
			t.Errorf("%d further views before the demand was merged", n-1)
		}
		for i, want := range []int{2, 4} {
			if n := held.release(); n != 1 {
				t.Errorf("%d jobs at a time, want 1", n)
			}
			if n := len(testkit.Got[*messages.ClusterView](w.client)); n != want {
				t.Errorf("%d views after job %d, want %d", n, i+1, want)
			}
		}
		for _, view := range testkit.Got[*messages.ClusterView](w.client) {
			d := view.GetDeployments()[0].GetDemand()
			if d.GetArrivalsPerSecond() != 1 || d.GetTtft().GetCount() != 1 {
				t.Errorf("%v", d)
			}
		}
	})
}
