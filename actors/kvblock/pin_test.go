package kvblock_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/kvblock"
	"troupe/core/kv"
	"troupe/messages"
	"troupe/testkit"
)

// has returns the given blocks that the tier holds.
func (s *stage) has(numbers ...int) (held []int) {
	s.t.Helper()
	const id = "has"
	r := s.ask(&messages.LockBlocks{RequestId: id, Hashes: hashes(numbers...)}).(*messages.LockBlocksResult)
	for _, n := range numbers {
		h := hash(n)
		if slices.ContainsFunc(r.GetLocked(),
			func(b *messages.Block) bool { return string(b.GetHash()) == string(h[:]) }) {
			held = append(held, n)
		}
	}
	s.sys.Root.Send(s.tier, &messages.UnlockBlocks{RequestId: id})
	return held
}

func (s *stage) flush() uint32 {
	s.t.Helper()
	return s.ask(&messages.FlushBlocks{}).(*messages.BlocksMoved).GetMoved().GetBlocks()
}

// TestPinnedBlocksStay checks that pinned blocks survive memory pressure and a flush, exactly as
// long as a replica repeats the pins.
func TestPinnedBlocksStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.StepsDone", Times: 1}
		s := play(t, kvblock.TierConfig{Name: "dram", Store: newStore(t, 4), Limits: kv.TierLimits{Watermark: 1}},
			crash.Middleware, testkit.Wire)
		pin := func(replica string, numbers ...int) {
			s.sys.Root.Send(s.tier, &messages.PinBlocks{Replica: replica, Hashes: hashes(numbers...)})
		}
		pin("a", 1, 2) // before the blocks exist
		s.put(1)
		s.put(3, 4, 5)
		s.put(6, 7, 8)
		if got := s.has(1); len(got) != 1 || s.status().GetPinned() != 1 {
			t.Errorf("%v is there; %v", got, s.status())
		}
		pin("b", 1, 8)
		pin("a") // unpins all
		if n := s.flush(); n != 2 {
			t.Errorf("%d blocks were dropped", n)
		}
		if got := s.has(1, 8); len(got) != 2 || s.status().GetPinned() != 2 {
			t.Errorf("%v is there; %v", got, s.status())
		}
		for range 3 { // while the pins are repeated
			time.Sleep(6 * time.Second)
			pin("b", 1, 8)
		}
		if n := s.flush(); n != 0 {
			t.Errorf("%d pinned blocks were dropped", n)
		}
		s.sys.Root.Send(s.tier, &messages.StepsDone{Steps: 1}) // crashes the tier, which loses the pins
		synctest.Wait()
		pin("b", 1)
		s.flush()
		if got := s.has(1, 8); len(got) != 1 || s.status().GetPinned() != 1 || s.status().GetFree() != 3 ||
			crash.Crashed() != 1 {
			t.Errorf("%v is there; %v", got, s.status())
		}
		time.Sleep(11 * time.Second)
		if n := s.flush(); n != 1 || s.status().GetFree() != 4 {
			t.Errorf("%d unpinned blocks were dropped; %v", n, s.status())
		}
		s.put(9)
		pin("c", 9, 9) // two prefixes share a block
		pin("c")
		if n := s.flush(); n != 1 {
			t.Errorf("%d blocks pinned for two prefixes were dropped", n)
		}
	})
}
