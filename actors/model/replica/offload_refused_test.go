package replica_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica"
	"troupe/messages"
	"troupe/testkit"
)

// TestFullTierIsAskedOncePerSecond checks that a replica retries its offloads once per second if
// the tier accepts no block, for example because all of its blocks are pinned.
func TestFullTierIsAskedOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		c := &cluster{t: t, settle: synctest.Wait, stepTime: stepTime, bulk: &bulk{}}
		store := c.addGatedTier(0.1)
		answer := func(m proto.Message) proto.Message {
			switch m := m.(type) {
			case *messages.LockBlocks:
				return &messages.LockBlocksResult{RequestId: m.GetRequestId()}
			case *messages.ReserveSlots:
				asked.Add(1)
				return &messages.ReserveSlotsResult{RequestId: m.GetRequestId(),
					Outcome: &messages.ReserveSlotsResult_Reserved{Reserved: &messages.SlotsReserved{}}}
			}
			return nil
		}
		c.tiers = func(name string) replica.Tiers {
			return replica.Tiers{
				Lower: []replica.Tier{{Name: "dram", Actor: testkit.NewPeer(c.t, c.sys, name+"-dram", answer).PID,
					Store: store}}, Watermark: 0.1,
			}
		}
		buildCluster(c, size{64, 8}, size{64, 8})
		s := c.open(sampled(5, 90, 60))
		c.waitFor("its end", s.done)
		before := asked.Load()
		time.Sleep(5500 * time.Millisecond)
		if n := asked.Load() - before; n < 4 || n > 6 {
			t.Errorf("%d requests in 5.5 s, after %d before", n, before)
		}
	})
}
