package adapter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/core/lora"
	"troupe/messages"
	"troupe/testkit"
)

// TestPoolGrowsBeforeItEvicts checks that an adapter is evicted only if the device has no more pages, or
// the gpu actor does not answer.
func TestPoolGrowsBeforeItEvicts(t *testing.T) {
	inVirtualTime(t, 1, func(t *testing.T, s *stage) {
		s.spare.Store(1)
		s.pin("1", "a1@1")
		wait()
		s.unpin("1")
		s.pin("2", "b1@1")
		wait()
		s.expect("2", "b1@1", lora.Active)
		if !s.memory.intact("a1@1") {
			t.Error("an adapter was evicted although the device had a page")
		}
		if n := s.counts.GetPages(); n != 2 || s.counts.GetEvictions() != 0 {
			t.Errorf("%d pages, %d evictions", n, s.counts.GetEvictions())
		}
		s.pin("3", "c1@1")
		wait()
		s.expect("3", "c1@1", lora.Active)
		s.unpin("3")
		if s.counts.GetEvictions() != 1 {
			t.Errorf("%d evictions without spare pages", s.counts.GetEvictions())
		}
		s.hung.Store(true)
		time.Sleep(time.Second) // it may ask again
		s.pin("4", "d1@1")
		time.Sleep(2 * time.Second)
		s.expect("4", "d1@1", lora.Active)
	})
}

// TestPoolGivesBackPages checks that a pool gives back pages of idle adapters at once and those in use when
// they are idle, that a crash of the pool loses none, and that it takes back what was not freed.
func TestPoolGivesBackPages(t *testing.T) {
	for _, crash := range []bool{false, true} {
		inVirtualTime(t, 4, func(t *testing.T, s *stage) {
			s.pin("1", "a1@1")
			s.pin("2", "b1@1")
			s.pin("3", "c1@1")
			wait()
			s.unpin("3")
			ask := func(attempt uint64) int {
				s.gpu.Send(s.pool, &messages.ShrinkAdapters{Lease: "m-0", Pages: 1, Attempt: attempt})
				wait()
				return len(testkit.Got[*messages.AdaptersShrunk](s.gpu))
			}
			if n := ask(7); n != 0 || len(s.memory.Pages()) != 2 {
				t.Fatalf("%d confirmations and %d pages while two adapters are in use", n, len(s.memory.Pages()))
			}
			s.expect("1", "a1@1", lora.Active)
			if crash {
				s.crashPool.Store(true)
				ask(7)
				wait()
			}
			s.unpin("1")
			if n := ask(7); n < 1 || len(s.memory.Pages()) != 1 {
				t.Fatalf("%d confirmations, %d pages", n, len(s.memory.Pages()))
			}
			s.expect("2", "b1@1", lora.Active)
			if _, why := s.pin("4", "a1@1"); why == nil { // refused when the pool answers
				wait()
				s.expect("4", "a1@1", lora.Absent)
			}
			reports := testkit.Got[*messages.AdapterReport](s.gpu)
			if r := reports[len(reports)-1]; r.GetAttempt() != 7 || r.GetPages() != 1 || r.GetUsedPages() != 1 {
				t.Errorf("the pool reports %v", r)
			}
			s.gpu.Send(s.pool, &messages.GrowAdapters{Lease: "m-0", Pages: 4, Attempt: 6}) // of an earlier change
			synctest.Wait()
			if n := len(s.memory.Pages()); n != 1 {
				t.Errorf("%d pages after a late message", n)
			}
			s.gpu.Send(s.pool, &messages.GrowAdapters{Lease: "m-0", Pages: 4, Attempt: 7})
			synctest.Wait()
			if n := s.counts.GetPages(); n != 4 || len(s.memory.Pages()) != 4 {
				t.Errorf("the pool has %d pages of %d after the shrink", n, len(s.memory.Pages()))
			}
			s.unpin("4")
			s.pin("5", "a1@1")
			wait()
			s.expect("5", "a1@1", lora.Active)
		})
	}
}
