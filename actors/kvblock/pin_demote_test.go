package kvblock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
	"troupe/testkit"
)

// playAbove starts a tier of four slots above another one. Its watermark allows two blocks.
func playAbove(t *testing.T, down *stage) *stage {
	s := &stage{t: t, sys: down.sys, store: newStore(t, 4)}
	s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
		Name: "dram", Store: s.store, Policy: "lru", Log: zerolog.Nop(),
		Below:  &kvblock.Lower{Tier: down.tier, Store: down.store},
		Limits: kv.TierLimits{Watermark: 0.5, Burst: 4},
	}))
	for _, tier := range []*stage{down, s} {
		s.sys.Root.Send(tier.tier, &messages.PinBlocks{Replica: "a", Hashes: hashes(1, 2, 3, 4, 5)})
	}
	return s
}

// TestFullTierDemotesPinnedBlocks checks that a tier full of pinned blocks demotes them to accept
// others, and loses none.
func TestFullTierDemotesPinnedBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := play(t, kvblock.TierConfig{Name: "nvme", Store: newStore(t, 8)})
		s := playAbove(t, down)
		s.put(1, 2, 3, 4)
		time.Sleep(100 * time.Millisecond)
		s.put(5, 6)
		time.Sleep(100 * time.Millisecond)
		if up, below := s.status(), down.status(); up.GetPinned()+below.GetPinned() != 5 || below.GetPinned() < 3 ||
			up.GetResident()+below.GetResident() != 6 {
			t.Errorf("dram %v, nvme %v", up, below)
		}
	})
}

// TestDemotionPausesWithoutRoomBelow checks that a tier does not ask the lower tier continuously
// while that one is full.
func TestDemotionPausesWithoutRoomBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		count := func(next actor.ReceiverFunc) actor.ReceiverFunc {
			return func(ctx actor.ReceiverContext, e *actor.MessageEnvelope) {
				if _, ok := e.Message.(*messages.ReserveSlots); ok {
					asked++
				}
				next(ctx, e)
			}
		}
		down := play(t, kvblock.TierConfig{Name: "nvme", Store: newStore(t, 1)}, count)
		s := playAbove(t, down)
		down.put(5)
		s.put(1, 2, 3, 4)
		time.Sleep(5 * time.Second)
		if up := s.status(); up.GetResident() != 4 || asked < 3 || asked > 8 {
			t.Errorf("the tier below was asked %d times; dram %v", asked, up)
		}
	})
}
