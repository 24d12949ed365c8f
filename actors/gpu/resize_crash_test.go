package gpu_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/core/hbm"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
)

// TestCrashWhileShrinking crashes the actor at each message of a shrink. In the end the replica
// must know its number of blocks, the ledger must match the device, and a repeated request must get
// the memory.
func TestCrashWhileShrinking(t *testing.T) {
	for _, on := range []string{"*gpu.inspected", "*messages.KVShrunk", "*gpu.resized"} {
		t.Run(on, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, crash := &fakeModels{context: 4096}, &testkit.Crash{On: on, Times: 1}
				if on == "*gpu.inspected" {
					crash.After = 1 // skip m-0's
				}
				p, pid := play(t, s, crash.Middleware)
				p.Send(pid, load("1", "m-0", "m"))
				p.Send(pid, &messages.KVReport{Lease: "m-0", Blocks: 512, MinBlocks: 128})
				synctest.Wait()
				second := load("2", "n-0", "n")
				second.KvBlocks = 128
				for range 3 { // a deployment repeats its request, and the replica yields memory and reports
					p.Send(pid, second)
					synctest.Wait()
					if asked := testkit.Got[*messages.ShrinkKV](p); len(asked) > 0 {
						p.Send(pid, &messages.KVShrunk{Lease: "m-0", Attempt: asked[len(asked)-1].GetAttempt()})
					}
					time.Sleep(time.Second)
					p.Send(pid, &messages.KVReport{Lease: "m-0", Blocks: uint32(s.has("m-0").KVBlocks), MinBlocks: 128})
					time.Sleep(time.Second)
				}
				if crash.Crashed() == 0 {
					t.Fatal("nothing crashed")
				}
				if got := last[loadResult](t, p).GetLoaded(); got.GetLease() != "n-0" || got.GetKvBlocks() != 128 {
					t.Errorf("the second model: %v", last[loadResult](t, p))
				}
				if got := last[*messages.GrowKV](t, p); int(got.GetBlocks()) != s.has("m-0").KVBlocks ||
					got.GetBlocks() >= 512 {
					t.Errorf("the replica knows %d blocks, want %d", got.GetBlocks(),
						s.has("m-0").KVBlocks)
				}
				p.Send(pid, &messages.GetGpu{})
				for _, l := range last[status](t, p).GetLeases() {
					if m := s.has(l.GetOwner()); l.GetKind() == "kv" &&
						int(l.GetPages()) != hbm.PagesOf(int64(m.KVBlocks)*m.KVBlockBytes) {
						t.Errorf("lease %v does not match %d blocks", l, m.KVBlocks)
					}
				}
			})
		})
	}
}

// has returns the model held under a lease.
func (s *fakeModels) has(lease string) residency.Loaded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[lease]
}
