package gpu_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

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
		for _, model := range []string{"a", "b"} {
			ask := load(model, model+"-0", model)
			ask.KvBlocks = 128
			p.Send(pid, ask)
			synctest.Wait()
		}
		report := func(lease string, blocks uint32, standby bool) {
			p.Send(pid, &messages.KVReport{Lease: lease, Blocks: blocks, MinBlocks: 16, Standby: standby})
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
			m.GetDrain().AsDuration() != time.Second || m.GetSource() != "device" || m.GetBytes() != 0 {
			t.Errorf("%v", ended)
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
		if len(events) != 2 || !strings.HasPrefix(events[0], "gpu.switched to b-0: drain 1s, ") ||
			!strings.HasPrefix(events[1], "gpu.switch_failed to a-0: ") {
			t.Errorf("%q", events)
		}
	})
}
