package gpu_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/gpu"
	"troupe/messages"
	"troupe/testkit"
)

// TestHBMTierIsReplaced checks that a device has a KV tier again after its tier has crashed so often that
// it has stopped.
func TestHBMTierIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crashes = 4
		crash := &testkit.Crash{On: "*messages.BlocksReleased", Times: crashes}
		p, pid := playWith(t, &fakeModels{}, func(c *gpu.Config) {
			c.HBM = c.HBM.Configure(actor.WithReceiverMiddleware(crash.Middleware))
		})
		synctest.Wait()
		hbm := actor.NewPID(pid.GetAddress(), pid.GetId()+"/hbm")
		for range crashes {
			p.Send(hbm, &messages.BlocksReleased{Lease: "m-0"})
			time.Sleep(time.Second)
		}
		p.Send(hbm, &messages.GetTier{})
		if last[*messages.TierStatus](t, p); crash.Crashed() != crashes {
			t.Errorf("%d crashes", crash.Crashed())
		}
	})
}
