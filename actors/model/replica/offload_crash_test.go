package replica_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/model/replica"
	"troupe/messages"
	"troupe/testkit"
)

// TestCopierCrashEndsOffload checks that a crash of the copier ends an offload and answers its
// command, that the blocks stay usable, and that the next command offloads them.
func TestCopierCrashEndsOffload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.CopyBlocksDown", Times: 1}
		c := newTierClusterWith(t, replica.Tiers{}, 0, nil, crash.Middleware)
		seq := sampled(5, 40, 4)
		want := c.reference(seq)
		c.checkOutcome(c.open(seq), want)
		offload := func(id string) *messages.KvMoved {
			c.operator.Send(c.a.PID, &messages.OffloadBlocks{RequestId: id})
			time.Sleep(2 * time.Second)
			all := testkit.Got[*messages.BlocksMoved](c.operator)
			if len(all) == 0 || all[len(all)-1].GetRequestId() != id {
				t.Fatalf("%s was not answered: %v", id, all)
			}
			return all[len(all)-1].GetMoved()
		}
		if m := offload("first"); m.GetBlocks() != 0 || !strings.Contains(m.GetDetail(), "interrupted") ||
			crash.Crashed() != 1 {
			t.Errorf("%v, %d crashes", m, crash.Crashed())
		}
		if m := offload("second"); m.GetBlocks() == 0 || m.GetDetail() != "" {
			t.Errorf("%v", m)
		}
		c.checkOutcome(c.open(seq), want)
		c.checkUnlocked()
		c.checkEmpty()
	})
}
