package gpu_test

import (
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

// TestSwitchForgetsLoadsOfGoneLeases loads the replica of a switch from disk, unloads it, and loads one of
// the same name with other files, whose weights are on the device. The metrics of the switch are not
// those of the first load.
func TestSwitchForgetsLoadsOfGoneLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{context: 4096}
		p, pid := playWith(t, s, func(c *gpu.Config) { c.Info = cuda.Info{MemoryBytes: 64 << 20} })
		place := func(lease, path string) {
			ask := load(lease+path, lease, path)
			ask.KvBlocks = 128
			p.Send(pid, ask)
			synctest.Wait()
		}
		unload := func(lease string) {
			p.Send(pid, &messages.UnloadModel{Lease: lease})
			synctest.Wait()
		}
		place("a-0", "a")
		place("d-0", "d")
		unload("d-0")
		p.Send(pid, &messages.SwitchGpu{RequestId: "s1", To: "c-0", Leave: []string{"a-0"},
			Timeout: durationpb.New(time.Minute)})
		time.Sleep(time.Millisecond)
		place("c-0", "c")
		unload("c-0")
		place("c-0", "d")
		if got := testkit.Got[loadResult](p); !got[len(got)-1].GetLoaded().GetShared() || s.loads != 3 {
			t.Fatalf("%d loads, %v", s.loads, got[len(got)-1])
		}
		unload("a-0")
		p.Send(pid, &messages.KVReport{Lease: "c-0", Blocks: 128, MinBlocks: 16, Serving: true,
			EngineSince: timestamppb.New(time.Now())})
		p.Send(pid, &messages.GetGpu{})
		of := last[status](t, p).GetSwitch()
		if m := of.GetMetrics(); of.GetPhase() != messages.GpuState_GPU_STATE_SERVING || m.GetSource() != "device" ||
			m.GetBytes() != 0 || m.Floor != nil {
			t.Errorf("%v", of)
		}
	})
}
