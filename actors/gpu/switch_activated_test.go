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
)

// TestSwitchEndsWithActivation activates a replica that leaves while its sequences finish, and another
// one after it has drained: each switch fails at once, and the device is free for the next one. A
// replica on standby that finishes a stream of another one does not end a switch.
func TestSwitchEndsWithActivation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		p, pid := playWith(t, &fakeModels{context: 4096}, func(c *gpu.Config) {
			c.Info = cuda.Info{MemoryBytes: 24 << 20}
			c.Publish = func(kind, _, detail string) {
				if strings.HasPrefix(kind, "gpu.") {
					events = append(events, kind+" "+detail)
				}
			}
		})
		for _, model := range []string{"a", "b"} {
			ask := load(model, model+"-0", model)
			ask.KvBlocks = 128
			p.Send(pid, ask)
			synctest.Wait()
		}
		report := func(lease string, standby, wanted bool) {
			p.Send(pid, &messages.KVReport{Lease: lease, Blocks: 128, MinBlocks: 16, Standby: standby,
				StandbyWanted: wanted})
			synctest.Wait()
		}
		begin := func(id string) {
			p.Send(pid, &messages.SwitchGpu{RequestId: id, To: "b-0", Leave: []string{"a-0"},
				Timeout: durationpb.New(time.Minute)})
			if r := last[*messages.SwitchGpuResult](t, p); r.GetBegun() == nil {
				t.Fatalf("%s: %v", id, r)
			}
		}
		expect := func(phase messages.GpuState, reason messages.Reason, waits ...string) {
			t.Helper()
			p.Send(pid, &messages.GetGpu{})
			s := last[status](t, p).GetSwitch()
			activated := strings.Contains(s.GetFailure(), "replica a-0 was activated meanwhile")
			if s.GetPhase() != phase || s.GetReason() != reason || !slices.Equal(s.GetWaitsFor(), waits) ||
				activated != (reason == messages.Reason_REASON_CONFLICT) {
				t.Errorf("%v", s)
			}
		}
		const none, conflict = messages.Reason_REASON_UNSPECIFIED, messages.Reason_REASON_CONFLICT
		report("a-0", false, false)
		report("b-0", false, true)

		begin("s1")
		report("a-0", false, false) // it has not been told yet
		report("a-0", false, true)
		expect(messages.GpuState_GPU_STATE_DRAINING, none, "a-0")
		report("a-0", false, false)
		expect(messages.GpuState_GPU_STATE_SERVING, conflict)

		begin("s2")
		report("a-0", true, true)
		expect(messages.GpuState_GPU_STATE_FREEING, none, "a-0")
		report("a-0", false, true) // a stream of another replica
		expect(messages.GpuState_GPU_STATE_FREEING, none, "a-0")
		report("a-0", false, false)
		expect(messages.GpuState_GPU_STATE_SERVING, conflict)

		begin("s3")
		expect(messages.GpuState_GPU_STATE_DRAINING, none, "a-0")
		if len(events) != 2 || slices.ContainsFunc(events, func(e string) bool {
			return !strings.HasPrefix(e, "gpu.switch_failed to b-0: ") ||
				!strings.HasSuffix(e, ": replica a-0 was activated meanwhile")
		}) {
			t.Errorf("%q", events)
		}
	})
}
