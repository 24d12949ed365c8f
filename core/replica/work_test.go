package replica

import (
	"testing"
	"time"

	"troupe/core/utilization"
)

// TestWorkIsCounted checks that the work of a step counts once it is done, and that of another step does not.
func TestWorkIsCounted(t *testing.T) {
	d := newDriver(Config{MaxSequences: 4, MaxWaiting: 4})
	d.startup(Model{Blocks: 64, ContextTokens: 128, BlockBytes: 1})
	d.do(d.m.Submit(submission("a", 8, 0, 3, ""), d.now))
	work := utilization.Work{FLOPs: 100, Bytes: 10}
	if !d.m.InFlight() {
		t.Fatal("no step is in flight")
	}
	d.m.StepWorked(d.m.current.step, work, time.Second)
	d.m.StepWorked(d.m.current.step-1, utilization.Work{FLOPs: 1e9}, time.Hour) // of an earlier one
	if use := d.m.totals.Use; use != (utilization.Counters{}) {
		t.Errorf("%+v before the step is done", use)
	}
	d.now = d.now.Add(4 * time.Second)
	d.stepDone()
	want := utilization.Counters{Steps: 4 * time.Second, Counted: 4 * time.Second, Least: time.Second, Work: work}
	if got := d.m.totals.Use; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	d.now = d.now.Add(time.Second)
	d.stepDone() // without work: the engine does not count it
	if want.Steps += time.Second; d.m.totals.Use != want {
		t.Errorf("%+v, want %+v", d.m.totals.Use, want)
	}
}
