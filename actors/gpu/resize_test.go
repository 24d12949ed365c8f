package gpu_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/gpu"
	"troupe/cuda"
	"troupe/messages"
	"troupe/testkit"
)

// playFull starts a device of 16 MiB: m-0 has 512 KV blocks of 16 KiB, of which it can yield 256,
// and 4 MiB are free.
func playFull(t *testing.T, s *fakeModels) (*testkit.Peer, func(msg any)) {
	s.context = 4096
	p, pid := playWith(t, s, func(c *gpu.Config) { c.Info = cuda.Info{MemoryBytes: 16 << 20} })
	send := func(msg any) {
		switch m := msg.(type) {
		case *messages.LoadModel:
			p.Send(pid, m)
		case *messages.KVReport:
			p.Send(pid, m)
		case *messages.KVShrunk:
			p.Send(pid, m)
		case *messages.UnloadModel:
			p.Send(pid, m)
		case *messages.LeaseAdapters:
			p.Send(pid, m)
		case *messages.GetGpu:
			p.Send(pid, m)
		}
		synctest.Wait()
	}
	send(load("1", "m-0", "m"))
	send(&messages.KVReport{Lease: "m-0", Blocks: 512, MinBlocks: 128})
	return p, send
}

// TestLoadWaitsForShrink checks that a load short of memory waits until a replica has shrunk.
func TestLoadWaitsForShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, send := playFull(t, &fakeModels{})
		second := load("2", "n-0", "n")
		second.KvBlocks = 128
		send(second)
		ask := last[*messages.ShrinkKV](t, p)
		if ask.GetLease() != "m-0" || ask.GetBlocks() != 384 {
			t.Fatalf("%v", ask)
		}
		if n := len(testkit.Got[loadResult](p)); n != 1 {
			t.Errorf("%d load answers before there was room", n)
		}
		shrunk := &messages.KVShrunk{Lease: "m-0", Attempt: ask.GetAttempt()}
		send(shrunk)
		if got := last[loadResult](t, p).GetLoaded(); got.GetLease() != "n-0" || got.GetKvBlocks() != 128 {
			t.Errorf("%v", got)
		}
		send(shrunk) // the replica repeats its answer
		if got := testkit.Got[*messages.GrowKV](p); len(got) != 2 || got[0].GetBlocks() != 384 ||
			got[1].GetBlocks() != 384 {
			t.Errorf("%v", got)
		}
		send(&messages.GetGpu{})
		var pages uint32
		for _, l := range last[status](t, p).GetLeases() {
			pages += l.GetPages()
		}
		if got := last[status](t, p); pages != 8 || got.GetFreeBytes() != 0 {
			t.Errorf("%d pages are leased: %v", pages, got)
		}
	})
}

// TestWrongBlockCountIsCorrected checks that a replica that has a wrong number of blocks, for
// example after a lost message, is sent the right one. No correction is sent while the number
// changes, or for an unknown lease.
func TestWrongBlockCountIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, send := playFull(t, &fakeModels{})
		expectGrows := func(n int) {
			t.Helper()
			got := testkit.Got[*messages.GrowKV](p)
			if len(got) != n || n > 0 && (got[n-1].GetLease() != "m-0" || got[n-1].GetBlocks() != 512) {
				t.Errorf("GrowKV messages: %v, want %d", got, n)
			}
		}
		expectGrows(0) // the report was right
		send(&messages.KVReport{Lease: "m-0", Blocks: 400, MinBlocks: 128})
		expectGrows(1)
		send(&messages.KVReport{Lease: "none", Blocks: 400, MinBlocks: 128})
		expectGrows(1)
		second := load("2", "n-0", "n")
		second.KvBlocks = 128
		send(second) // makes m-0 shrink
		send(&messages.KVReport{Lease: "m-0", Blocks: 384, MinBlocks: 128})
		expectGrows(1)
	})
}

// TestFailedShrinkRefusesLoad checks that a replica that refuses, does not answer, or cannot shrink
// keeps its memory, and that the load is refused.
func TestFailedShrinkRefusesLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		shelf  *fakeModels
		answer func(attempt uint64) *messages.KVShrunk
	}{
		"silent": {&fakeModels{}, func(uint64) *messages.KVShrunk { return nil }},
		"refuses": {&fakeModels{}, func(a uint64) *messages.KVShrunk {
			return &messages.KVShrunk{Lease: "m-0", Attempt: a, Refused: &messages.Refused{}}
		}},
		"fixed": {&fakeModels{failResize: errors.ErrUnsupported},
			func(a uint64) *messages.KVShrunk { return &messages.KVShrunk{Lease: "m-0", Attempt: a} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, send := playFull(t, tc.shelf)
				second := load("2", "n-0", "n")
				second.KvBlocks = 128
				send(second)
				if a := tc.answer(last[*messages.ShrinkKV](t, p).GetAttempt()); a != nil {
					send(a)
				}
				time.Sleep(6 * time.Second)
				if got := last[loadResult](t, p).GetRefused(); got.GetReason() != messages.Reason_REASON_NO_MEMORY {
					t.Errorf("%v", got)
				}
				if got := last[*messages.GrowKV](t, p); got.GetBlocks() != 512 {
					t.Errorf("%v", got)
				}
				send(&messages.GetGpu{})
				if got := last[status](t, p); got.GetFreeBytes() != 4<<20 ||
					got.GetState() != messages.GpuState_GPU_STATE_SERVING {
					t.Errorf("%v", got)
				}
			})
		})
	}
}

// TestFreeMemoryIsDistributed checks that free memory is given to a replica that wants more.
func TestFreeMemoryIsDistributed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, send := playFull(t, &fakeModels{})
		send(&messages.KVReport{Lease: "m-0", Blocks: 512, MinBlocks: 128, WantedBlocks: 200})
		time.Sleep(2500 * time.Millisecond)
		if got := last[*messages.GrowKV](t, p); got.GetBlocks() != 712 {
			t.Errorf("%v", got)
		}
		send(&messages.GetGpu{})
		if got := last[status](t, p); got.GetFreeBytes() != 0 {
			t.Errorf("%v", got)
		}
	})
}
