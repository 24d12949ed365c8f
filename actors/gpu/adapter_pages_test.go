package gpu_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/gpu"
	"troupe/core/hbm"
	"troupe/cuda"
	"troupe/messages"
	"troupe/testkit"
)

// TestAdapterPagesGrowAndShrink lets a pool get free pages, and give them back for a load. The actor crashes at
// each message of that in turn. In the end the ledger matches the device, and the pool knows its pages.
func TestAdapterPagesGrowAndShrink(t *testing.T) {
	for _, on := range []string{"", "*messages.AdapterReport", "*gpu.pagesChanged", "*messages.AdaptersShrunk",
		"*gpu.poolTimeout"} {
		t.Run(on, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, crash := &fakeModels{context: 4096}, &testkit.Crash{On: on, Times: 1}
				p, pid := playWith(t, s, func(c *gpu.Config) {
					c.Info, c.KVReserve = cuda.Info{MemoryBytes: 20 << 20}, 0.1
				}, crash.Middleware)
				first := load("1", "m-0", "m")
				first.KvBlocks, first.AdapterPages, first.MaxAdapters = 128, 1, 2
				p.Send(pid, first)
				synctest.Wait()
				report := func(wanted uint32) {
					known := uint32(1)
					for _, grown := range testkit.Got[*messages.GrowAdapters](p) {
						known = grown.GetPages()
					}
					p.Send(pid, &messages.KVReport{Lease: "m-0", Blocks: 128, MinBlocks: 128})
					p.Send(pid, &messages.AdapterReport{Lease: "m-0", Pages: known, WantedPages: wanted})
					time.Sleep(1100 * time.Millisecond)
				}
				for range 4 {
					report(uint32(4 - s.has("m-0").AdapterPages))
				}
				if got := last[*messages.GrowAdapters](t, p); got.GetPages() != 4 ||
					adapterBytes(p, pid) != 4*hbm.PageBytes {
					t.Fatalf("the pool has %v, %d bytes are leased", got, adapterBytes(p, pid))
				}
				second := load("2", "n-0", "n")
				second.KvBlocks = 384
				for range 4 { // a deployment repeats its request
					p.Send(pid, second)
					synctest.Wait()
					if asked := testkit.Got[*messages.ShrinkAdapters](p); len(asked) > 0 {
						time.Sleep(600 * time.Millisecond) // it is asked again
						s.giveBack(s.has("m-0").AdapterPages - int(asked[0].GetPages()))
						attempt := last[*messages.ShrinkAdapters](t, p).GetAttempt()
						p.Send(pid, &messages.AdaptersShrunk{Lease: "m-0", Attempt: attempt})
						synctest.Wait()
					}
					report(0)
				}
				if on != "" && crash.Crashed() == 0 {
					t.Fatal("nothing crashed")
				}
				if got := last[loadResult](t, p).GetLoaded(); got.GetLease() != "n-0" {
					t.Errorf("the second model: %v", last[loadResult](t, p))
				}
				pages := s.has("m-0").AdapterPages
				if got := last[*messages.GrowAdapters](t, p); int(got.GetPages()) != pages || pages != 1 ||
					adapterBytes(p, pid) != uint64(pages)*hbm.PageBytes {
					t.Errorf("the pool knows %v; it has %d pages, and %d bytes are leased", got, pages,
						adapterBytes(p, pid))
				}
			})
		})
	}
}

// TestAdapterPagesThatCannotChange checks that a pool is notified if its device cannot add pages.
func TestAdapterPagesThatCannotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{}
		p, pid := play(t, s)
		first := load("1", "m-0", "m")
		first.KvBlocks, first.AdapterPages = 128, 1
		p.Send(pid, first)
		time.Sleep(2 * time.Second)
		s.mu.Lock()
		s.failResize = errors.ErrUnsupported
		s.mu.Unlock()
		for range 2 {
			p.Send(pid, &messages.AdapterReport{Lease: "m-0", Pages: 1, WantedPages: 1})
			synctest.Wait()
			if got := last[*messages.GrowAdapters](t, p); got.GetPages() != 1 || adapterBytes(p, pid) != hbm.PageBytes {
				t.Errorf("%v, %d bytes", got, adapterBytes(p, pid))
			}
		}
	})
}

// giveBack gives back pages for adapters.
func (s *fakeModels) giveBack(pages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = max(0, pages)
}
