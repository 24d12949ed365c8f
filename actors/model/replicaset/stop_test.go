package replicaset

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// TestStopDuringLoad checks that the memory of a replica that was stopped while it was loading is
// released, although the deployment that stopped it is gone and does not repeat the command.
func TestStopDuringLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := testkit.System(t)
		var leased, loading atomic.Bool
		leased.Store(true)
		loading.Store(true)
		gpu := testkit.NewPeer(t, sys, "gpu", func(m proto.Message) proto.Message {
			switch m := m.(type) {
			case *messages.GetGpu:
				s := &messages.GpuStatus{Name: "gpu-0"}
				if leased.Load() {
					s.Leases = []*messages.GpuLease{{Owner: "m-0", Kind: "weights"}}
				}
				return s
			case *messages.UnloadModel:
				if loading.Load() {
					return &messages.UnloadModelResult{RequestId: m.GetRequestId(),
						Outcome: &messages.UnloadModelResult_Refused{Refused: &messages.Refused{
							Reason: messages.Reason_REASON_NOT_READY}}}
				}
				leased.Store(false)
				return &messages.UnloadModelResult{RequestId: m.GetRequestId(),
					Outcome: &messages.UnloadModelResult_Unloaded{Unloaded: &messages.ModelUnloaded{}}}
			}
			return nil
		})
		deployment := testkit.NewPeer(t, sys, "deployment", func(proto.Message) proto.Message { return nil })
		group := sys.Root.Spawn(Props(Config{Node: "n0", GPUs: []string{"gpu-0"}, Fence: &Fence{},
			Strategy: supervise.Strategy(nil), Log: zerolog.Nop(),
			GPU: func(string) *actor.PID { return gpu.PID },
			Replica: func(*messages.ReplicaSpec, *actor.PID) *actor.Props {
				return actor.PropsFromFunc(func(actor.Context) {})
			}}))
		deployment.Send(group, &messages.StartReplica{RequestId: "1", Term: 1, Deployment: &messages.ActorRef{},
			Replica: &messages.ReplicaSpec{Name: "m-0", Model: "m", Gpu: "gpu-0"}})
		deployment.Send(group, &messages.StopReplica{RequestId: "2", Term: 1, Replica: "m-0", Model: "m", Gpu: "gpu-0"})
		deployment.Stop()
		synctest.Wait()
		loading.Store(false)
		time.Sleep(2 * checkLeasesEvery)
		synctest.Wait()
		if leased.Load() {
			t.Error("the memory of a replica that has stopped is still leased")
		}
		gpu.Stop()
		_ = sys.Root.StopFuture(group).Wait()
		time.Sleep(checkLeasesEvery)
	})
}
