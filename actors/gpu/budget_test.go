package gpu_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/gpu"
	"troupe/cuda"
	"troupe/messages"
	"troupe/testkit"
)

// yieldingReplicas acts as replicas that yield whenever they are asked, and that report their KV
// memory continuously.
type yieldingReplicas struct {
	*testkit.Peer
	t      *testing.T
	pid    *actor.PID
	models *fakeModels
	asked  int
}

func (o *yieldingReplicas) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, m := range o.models.Held() {
			o.Send(o.pid, &messages.KVReport{Lease: m.Lease, Blocks: uint32(m.KVBlocks), MinBlocks: 64})
		}
		synctest.Wait()
		all := testkit.Got[*messages.ShrinkKV](o.Peer)
		for _, m := range all[o.asked:] {
			o.Send(o.pid, &messages.KVShrunk{Lease: m.GetLease(), Attempt: m.GetAttempt()})
		}
		o.asked = len(all)
		synctest.Wait()
	}
}

// TestBudgetLimitsReplicas places replicas until they would have less than their minimum, and
// expects the next one to be refused. The first replica gets its memory back when the others are
// gone.
func TestBudgetLimitsReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{context: 1024}
		p, pid := playWith(t, s, func(c *gpu.Config) { c.Info, c.KVReserve = cuda.Info{MemoryBytes: 64 << 20}, 0.3 })
		o := &yieldingReplicas{Peer: p, t: t, pid: pid, models: s}
		place := func(i int) *messages.LoadModelResult {
			ask := load(fmt.Sprint(i), fmt.Sprint("m-", i), fmt.Sprint("m", i))
			ask.MaxSequences = 16 // at most 1024 blocks (16 MiB), at least 4 MiB of them, and 4 MiB of weights
			o.Send(pid, ask)
			o.pass(6 * time.Second)
			return last[loadResult](t, p)
		}
		for i := range 8 {
			got, name := place(i), fmt.Sprint("m-", i)
			if m := got.GetLoaded(); m.GetLease() != name || m.GetKvBlocksAlone() != 1024 || m.GetKvBlocks() < 256 {
				t.Fatalf("replica %d: %v", i, got)
			}
			for _, m := range s.Held() {
				if m.KVBlocks < 256 {
					t.Errorf("%s has %d KV blocks next to %d others", m.Lease, m.KVBlocks, i)
				}
			}
		}
		refused := place(8).GetRefused()
		want := &messages.MemoryShortage{Model: "m8", Bytes: 8 << 20, Used: 64 << 20, Total: 64 << 20,
			Reserve: 18 << 20}
		if refused.GetReason() != messages.Reason_REASON_NO_MEMORY || refused.GetMemory().String() != want.String() ||
			!strings.Contains(refused.GetDetail(),
				"gpu-0, m8: short of memory by 8 MiB: needs 4 MiB and at least 4 MiB for KV") {
			t.Errorf("one replica too many: %v", refused)
		}
		if got := s.has("m-0").KVBlocks; got != 256 {
			t.Errorf("the first replica has %d KV blocks next to seven others", got)
		}
		for i := 1; i < 8; i++ {
			o.Send(pid, &messages.UnloadModel{RequestId: "u", Lease: fmt.Sprint("m-", i),
				Fate: messages.WeightsFate_WEIGHTS_FATE_SPARE})
		}
		o.pass(5 * time.Second)
		if got := s.has("m-0").KVBlocks; got != 1024 {
			t.Errorf("the first replica has %d KV blocks on its own", got)
		}
	})
}

// TestWeightsLeaveReserve checks that a model whose weights cut into the reserve is refused, even
// on an empty device.
func TestWeightsLeaveReserve(t *testing.T) {
	for share, fits := range map[float64]bool{0.75: true, 0.9: false} { // of 16 MiB, of which the weights take 4 MiB
		synctest.Test(t, func(t *testing.T) {
			p, pid := playWith(t, &fakeModels{}, func(c *gpu.Config) { c.KVReserve = share })
			p.Send(pid, load("1", "m-0", "m"))
			synctest.Wait()
			got := last[loadResult](t, p)
			if reserve := got.GetRefused().GetMemory().GetReserve(); (got.GetLoaded() != nil) != fits ||
				(reserve == 14<<20) == fits {
				t.Errorf("%g: %v", share, got)
			}
		})
	}
}

// TestLoadWaitsForLoadingReplica checks that a load short of memory waits for a replica that can
// yield once it is loaded.
func TestLoadWaitsForLoadingReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{context: 4096, delay: time.Minute}
		p, pid := playWith(t, s, func(*gpu.Config) {})
		o := &yieldingReplicas{Peer: p, t: t, pid: pid, models: s}
		o.Send(pid, load("1", "m-0", "m")) // takes 12 of 16 MiB and can yield 4 MiB of them
		synctest.Wait()
		second := load("2", "n-0", "n")
		second.KvBlocks = 128
		o.Send(pid, second)
		o.pass(150 * time.Second)
		if got := last[loadResult](t, p).GetLoaded(); got.GetLease() != "n-0" || got.GetKvBlocks() != 128 {
			t.Errorf("%v", last[loadResult](t, p))
		}
	})
}
