package replicaset

import (
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// TestStaleCommandsReachNoReplica checks that a command to a replica is passed on only if its term is not
// stale.
func TestStaleCommandsReachNoReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := testkit.System(t)
		gpu := testkit.NewPeer(t, sys, "gpu", func(proto.Message) proto.Message {
			return &messages.GpuStatus{Name: "gpu-0"}
		})
		deployment := testkit.NewPeer(t, sys, "deployment", nil)
		var got []any
		group := testkit.Spawn(t, sys, "replicas", supervise.Strategy(nil), Props(Config{
			Node: "n0", GPUs: []string{"gpu-0"}, Fence: &Fence{}, Strategy: supervise.Strategy(nil), Log: zerolog.Nop(),
			GPU: func(string) *actor.PID { return gpu.PID },
			Replica: func(*messages.ReplicaSpec, *actor.PID) *actor.Props {
				return actor.PropsFromFunc(func(ctx actor.Context) {
					switch ctx.Message().(type) {
					case *messages.DrainReplica, *messages.SetReplicaLevel, *messages.SaveSequences:
						got = append(got, ctx.Message())
					}
				})
			}}))
		deployment.Send(group, &messages.StartReplica{RequestId: "1", Term: 2, Deployment: &messages.ActorRef{},
			Replica: &messages.ReplicaSpec{Name: "m-0", Model: "m", Gpu: "gpu-0"}})
		for _, term := range []uint64{1, 2} {
			for _, command := range []proto.Message{
				&messages.DrainReplica{Replica: "m-0", Term: term},
				&messages.SetReplicaLevel{Replica: "m-0", Term: term},
				&messages.SaveSequences{Replica: "m-0", Term: term},
			} {
				before := len(got)
				deployment.Send(group, command)
				synctest.Wait()
				if passed := len(got) > before; passed != (term == 2) {
					t.Errorf("%T of term %d is passed on: %t", command, term, passed)
				}
			}
		}
	})
}
