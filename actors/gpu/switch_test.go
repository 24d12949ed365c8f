package gpu_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/gpu"
	"troupe/cuda"
	"troupe/messages"
	"troupe/testkit"
)

// TestSwitchPhases leads a device through the phases of a switch, each of which its status shows. It
// loses a second switch to the end of its time, and a third one to a crash of the actor.
func TestSwitchPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		s, crash := &fakeModels{context: 4096}, &testkit.Crash{On: "*messages.DeviceFailed", Times: 1}
		p, pid := playWith(t, s, func(c *gpu.Config) {
			c.Info = cuda.Info{MemoryBytes: 24 << 20}
			c.Publish = func(kind, _, detail string) {
				if strings.HasPrefix(kind, "gpu.") {
					events = append(events, kind+" "+detail)
				}
			}
		}, crash.Middleware)
		engine := time.Now()
		for _, model := range []string{"a", "b"} {
			ask := load(model, model+"-0", model)
			ask.KvBlocks = 128
			p.Send(pid, ask)
			synctest.Wait()
		}
		report := func(lease string, blocks uint32, standby bool) {
			p.Send(pid, &messages.KVReport{Lease: lease, Blocks: blocks, MinBlocks: 16, Standby: standby,
				Serving: !standby, EngineSince: timestamppb.New(engine), Graphs: 10, Capture: durationpb.New(7)})
			synctest.Wait()
		}
		expect := func(state messages.GpuState, waits ...string) *messages.GpuSwitch {
			t.Helper()
			p.Send(pid, &messages.GetGpu{})
			is := last[status](t, p)
			if is.GetState() != state || !slices.Equal(is.GetSwitch().GetWaitsFor(), waits) {
				t.Errorf("%s, waits for %v", is.GetState(), is.GetSwitch().GetWaitsFor())
			}
			return is.GetSwitch()
		}
		begin := func(id, to, leave string) *messages.SwitchGpuResult {
			p.Send(pid, &messages.SwitchGpu{RequestId: id, To: to, Leave: []string{leave},
				Timeout: durationpb.New(10 * time.Second)})
			return last[*messages.SwitchGpuResult](t, p)
		}
		report("a-0", 128, false)
		report("b-0", 128, true)
		shrink := func(lease string) {
			asked := testkit.Got[*messages.ShrinkKV](p)
			p.Send(pid, &messages.KVShrunk{Lease: lease, Attempt: asked[len(asked)-1].GetAttempt()})
			synctest.Wait()
		}
		shrink("b-0")
		begin("s1", "b-0", "a-0")
		expect(messages.GpuState_GPU_STATE_DRAINING, "a-0")
		if r := begin("s2", "a-0", "b-0").GetRefused(); r.GetReason() != messages.Reason_REASON_CONFLICT {
			t.Errorf("%v", r)
		}
		time.Sleep(time.Second)
		report("a-0", 128, true)
		expect(messages.GpuState_GPU_STATE_FREEING, "a-0")
		shrink("a-0")
		expect(messages.GpuState_GPU_STATE_CAPTURING, "b-0")
		report("b-0", 16, false)
		ended := expect(messages.GpuState_GPU_STATE_SERVING)
		if m := ended.GetMetrics(); ended.GetId() != "s1" || ended.GetFailure() != "" ||
			m.GetDrain().AsDuration() != time.Second || m.GetSource() != "device" || m.GetBytes() != 0 ||
			m.Graph != nil || m.GetGraphs() != 0 || m.Floor != nil {
			t.Errorf("%v", ended)
		}
		for _, lease := range []string{"a-0", "b-0", "b-0"} { // the first report of the replica that came counts
			took := map[string]time.Duration{"a-0": time.Hour, "b-0": 5 * time.Millisecond}[lease]
			p.Send(pid, &messages.KVReport{Lease: lease, Blocks: 16, MinBlocks: 16, Standby: lease == "a-0",
				Verify: durationpb.New(took)})
		}
		verified := expect(messages.GpuState_GPU_STATE_SERVING).GetMetrics().GetVerify()
		if verified.AsDuration() != 5*time.Millisecond {
			t.Errorf("verified in %v", verified)
		}

		begin("s3", "a-0", "b-0")
		time.Sleep(11 * time.Second)
		if ended := expect(messages.GpuState_GPU_STATE_SERVING); !strings.Contains(ended.GetFailure(), "time") {
			t.Errorf("%v", ended)
		}
		begin("s4", "a-0", "b-0")
		p.Send(pid, &messages.DeviceFailed{})
		if after := expect(messages.GpuState_GPU_STATE_SERVING); after != nil {
			t.Errorf("after a crash: %v", after)
		}
		time.Sleep(time.Millisecond)
		comes := load("c", "c-0", "c")
		comes.KvBlocks = 128
		begin("s5", "c-0", "a-0")
		expect(messages.GpuState_GPU_STATE_DRAINING, "a-0")
		report("a-0", 16, true)
		expect(messages.GpuState_GPU_STATE_LOADING, "c-0")
		time.Sleep(time.Millisecond)
		p.Send(pid, comes)
		synctest.Wait()
		expect(messages.GpuState_GPU_STATE_CAPTURING, "c-0")
		p.Send(pid, &messages.KVReport{Lease: "c-0", Blocks: 128, MinBlocks: 16}) // its engine captures
		time.Sleep(time.Second)
		expect(messages.GpuState_GPU_STATE_CAPTURING, "c-0")
		engine = time.Now()
		report("c-0", 128, false)
		ended = expect(messages.GpuState_GPU_STATE_SERVING)
		if m := ended.GetMetrics(); ended.GetFailure() != "" || m.GetStart().AsDuration() != time.Second ||
			m.GetGraph().AsDuration() != 7 || m.GetGraphs() != 10 || m.GetSource() != "disk" ||
			m.GetFloor().AsDuration() != 3*time.Millisecond {
			t.Errorf("%v", ended)
		}
		p.Send(pid, &messages.GetGpu{})
		if all := last[status](t, p).GetSwitches(); all.GetSwitched() != 2 || all.GetFailed() != 1 ||
			all.GetStart().AsDuration() != time.Second || all.GetDrain().AsDuration() < time.Second {
			t.Errorf("two switches, one that failed, and one lost in a crash: %v", all)
		}
		if len(events) != 3 || !strings.HasSuffix(events[2], "start 1s with 7ns for 10 graphs") ||
			!strings.Contains(events[2], "from disk (at least 3ms at measured speeds)") ||
			!strings.HasPrefix(events[0], "gpu.switched to b-0: drain 1s, ") ||
			!strings.HasPrefix(events[1], "gpu.switch_failed to a-0: ") {
			t.Errorf("%q", events)
		}
	})
}
