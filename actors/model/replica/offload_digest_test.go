package replica_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/kv"
	"troupe/messages"
	"troupe/testkit"
)

// TestBlocksWithoutDigestStay checks that a replica whose files have no digest refuses for good to
// offload, restore and send blocks, since it cannot name them elsewhere. HBM can be flushed.
func TestBlocksWithoutDigestStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, settle: synctest.Wait, stepTime: stepTime, bulk: &bulk{},
			revisions: map[string]string{"m-0": ""}}
		c.addGatedTier(0.1)
		buildCluster(c, size{64, 8}, size{64, 8})
		s := c.open(sampled(5, 90, 4))
		c.waitFor("its end", s.done)
		for _, m := range []proto.Message{&messages.OffloadBlocks{}, &messages.RestoreBlocks{}} {
			got := len(testkit.Got[*messages.BlocksMoved](c.operator))
			c.operator.Send(c.a.PID, m)
			synctest.Wait()
			all := testkit.Got[*messages.BlocksMoved](c.operator)[got:]
			if len(all) != 1 || all[0].GetRefused().GetReason() != messages.Reason_REASON_UNSUPPORTED ||
				!strings.Contains(all[0].GetRefused().GetDetail(), "digest") {
				t.Errorf("%T: %v", m, all)
			}
		}
		h := kv.Root("m", "", nil)
		c.operator.Send(c.a.PID, &messages.LeaseBlocks{Hashes: [][]byte{h[:]}, Space: h[:],
			BlockBytes: uint64(c.a.blockBytes), Lease: durationpb.New(time.Second)})
		c.operator.Send(c.a.PID, &messages.FlushBlocks{})
		synctest.Wait()
		if all := testkit.Got[*messages.LeaseBlocksResult](c.operator); len(all) != 1 ||
			all[0].GetRefused().GetReason() != messages.Reason_REASON_UNSUPPORTED {
			t.Errorf("%v", all)
		}
		all := testkit.Got[*messages.BlocksMoved](c.operator)
		if last := all[len(all)-1]; last.GetMoved().GetBlocks() == 0 {
			t.Errorf("%v", last)
		}
	})
}
