package adapter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/core/lora"
	"troupe/messages"
	"troupe/testkit"
)

// withHostCache runs a test in a synctest bubble with a host cache that answers as answer says; nil: it
// does not answer.
func withHostCache(t *testing.T, answer func(*messages.UseImage) *messages.UseImageResult,
	test func(s *stage, cache *testkit.Peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, memory: newMemory(2), sys: testkit.System(t)}
		cache := testkit.NewPeer(t, s.sys, "hostcache", func(msg proto.Message) proto.Message {
			if use, ok := msg.(*messages.UseImage); ok && answer != nil {
				return answer(use)
			}
			return nil
		})
		s.cache, s.gpu = cache.PID, testkit.NewPeer(t, s.sys, "gpu", nil)
		s.begin()
		test(s, cache)
		s.end()
	})
}

// TestLoadUsesHostCache checks that a load asks the host cache for an adapter by its name, uses the
// ticket, and counts as one from host memory.
func TestLoadUsesHostCache(t *testing.T) {
	ticket := func(use *messages.UseImage) *messages.UseImageResult {
		return &messages.UseImageResult{RequestId: use.GetRequestId(), Ticket: use.GetRequestId(), Ready: true}
	}
	withHostCache(t, ticket, func(s *stage, cache *testkit.Peer) {
		s.pin("1", "a2@7")
		wait()
		s.expect("1", "a2@7", lora.Active)
		uses := testkit.Got[*messages.UseImage](cache)
		if len(uses) != 1 || uses[0].GetModel() != "m" || uses[0].GetAdapter() != "a2@7" ||
			uses[0].GetLayout() != "test" || uses[0].GetPath() != "a/2" ||
			uses[0].GetBytes() != uint64(fileOfPages(2).Layout.Bytes()) {
			t.Fatalf("%v", uses)
		}
		if s.memory.loaded()[0] != uses[0].GetRequestId() {
			t.Errorf("loaded with tickets %v, want %s", s.memory.loaded(), uses[0].GetRequestId())
		}
		if c := s.counts; c.GetLoads() != 1 || c.GetHostLoads() != 1 || c.GetReads() != 0 {
			t.Errorf("%v", c)
		}
	})
}

// TestLoadWaitsForAnother checks that a slot asks again while another load fills the image, and reads
// the files itself after a while.
func TestLoadWaitsForAnother(t *testing.T) {
	waiting := func(use *messages.UseImage) *messages.UseImageResult {
		return &messages.UseImageResult{RequestId: use.GetRequestId(), Waiting: true}
	}
	withHostCache(t, waiting, func(s *stage, cache *testkit.Peer) {
		s.pin("1", "a1@1")
		time.Sleep(4500 * time.Millisecond)
		synctest.Wait()
		if len(s.memory.loaded()) > 0 || len(testkit.Got[*messages.UseImage](cache)) != 5 {
			t.Fatalf("%d loads, %d requests", len(s.memory.loaded()), len(testkit.Got[*messages.UseImage](cache)))
		}
		wait()
		s.expect("1", "a1@1", lora.Active)
		if s.memory.loaded()[0] != "" || len(testkit.Got[*messages.EndImageUse](cache)) != 1 {
			t.Errorf("tickets %v; ended %v", s.memory.loaded(), testkit.Got[*messages.EndImageUse](cache))
		}
		if c := s.counts; c.GetReads() != 1 || c.GetHostLoads() != 0 {
			t.Errorf("%v", c)
		}
	})
}

// TestSilentHostCache checks that a load does without a host cache that does not answer, and that a slot
// that stops before gives its request up.
func TestSilentHostCache(t *testing.T) {
	withHostCache(t, nil, func(s *stage, cache *testkit.Peer) {
		s.pin("1", "a1@1")
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if len(s.memory.loaded()) > 0 {
			t.Fatal("loaded without waiting for an answer")
		}
		wait()
		s.expect("1", "a1@1", lora.Active)
		s.pin("2", "b1@1")
		time.Sleep(500 * time.Millisecond)
		s.end()
		s.begin()
		uses, ends := testkit.Got[*messages.UseImage](cache), testkit.Got[*messages.EndImageUse](cache)
		if len(uses) != 2 || len(ends) != 2 || uses[1].GetRequestId() != ends[1].GetRequestId() {
			t.Errorf("asked %v, ended %v", uses, ends)
		}
		if len(s.memory.loaded()) != 1 {
			t.Errorf("%d loads", len(s.memory.loaded()))
		}
	})
}

// TestDeletedAdapterIsReported checks that the replica learns of the end of an adapter whose copy in host
// memory is still there.
func TestDeletedAdapterIsReported(t *testing.T) {
	inVirtualTime(t, 1, func(t *testing.T, s *stage) {
		s.memory.setInHost("a1@1", true)
		s.pin("1", "a1@1")
		wait()
		s.unpin("1")
		s.pin("2", "b1@1") // evicts a
		wait()
		s.run(func(ctx actor.Context) { ctx.Send(s.pool, &messages.ForgetAdapter{Adapter: specOf("a1@1")}) })
		if state, tier := s.pins.State("a1@1"); state != lora.Absent || tier != lora.Disk {
			t.Errorf("%s on %s", state, tier)
		}
	})
}

// TestReportsCopiesInHostMemory checks that the replica learns of copies in host memory that come and go
// without a message to its pool.
func TestReportsCopiesInHostMemory(t *testing.T) {
	inVirtualTime(t, 1, func(t *testing.T, s *stage) {
		tier := func() lora.Tier {
			wait()
			_, tier := s.pins.State("a1@1")
			return tier
		}
		s.pin("1", "a1@1")
		wait()
		s.unpin("1")
		s.pin("2", "b1@1") // evicts a
		if got := tier(); got != lora.Disk {
			t.Errorf("evicted: on %s", got)
		}
		s.memory.setInHost("a1@1", true)
		if got := tier(); got != lora.DRAM {
			t.Errorf("copied: on %s", got)
		}
		s.memory.setInHost("a1@1", false)
		if got := tier(); got != lora.Disk {
			t.Errorf("dropped: on %s", got)
		}
	})
}
