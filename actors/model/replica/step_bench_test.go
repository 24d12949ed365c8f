package replica_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica"
	"troupe/actors/model/stepper"
	"troupe/actors/supervise"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// BenchmarkToken measures one token of one sequence: the plan, the step of an engine that computes
// nothing, and the messages between replica, engine and session.
func BenchmarkToken(b *testing.B) {
	sys, dispatcher := testkit.System(b), supervise.NewDispatcher()
	reused := func(props *actor.Props) *actor.Props { return props.Configure(actor.WithDispatcher(dispatcher)) }
	s := &harness{blocks: map[uint32][]byte{}}
	gpu := testkit.NewPeer(b, sys, "gpu", func(m proto.Message) proto.Message {
		switch m := m.(type) {
		case *messages.RequestTurn:
			return openTurn(m)
		case *messages.LoadModel:
		default:
			return nil
		}
		return &messages.LoadModelResult{Outcome: &messages.LoadModelResult_Loaded{Loaded: &messages.ModelLoaded{
			Lease: "m-0", KvBlocks: 1 << 12, KvBlockBytes: 64, ContextTokens: 1 << 14, Vocab: 100,
		}}}
	})
	hbm := testkit.NewPeer(b, sys, "hbm", s.answerHBM)
	serving := make(chan struct{})
	deploy := sys.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*messages.ReplicaChanged); ok &&
			m.GetStatus().GetState() == messages.ReplicaState_REPLICA_STATE_SERVING && m.GetStatus().GetSteps() == 0 {
			close(serving)
		}
	}))
	pid := sys.Root.Spawn(reused(replica.Props(replica.Config{
		Spec: &messages.ReplicaSpec{Name: "m-0", Model: "m", BlockTokens: 16, MaxSequences: 4, MaxWaiting: 2,
			StepTokens: 32},
		GPU: gpu.PID, HBM: hbm.PID, Deployment: deploy, Strategy: supervise.Strategy(nil),
		Engine: func(string, func(uint64) (engine.Gate, error)) *actor.Props {
			return reused(stepper.Props(stepper.Config{Open: (&positionEngine{}).Open}))
		},
	})))
	<-serving
	finished := make(chan struct{})
	client := sys.Root.Spawn(reused(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *messages.SubmitSequence:
			ctx.Request(pid, m)
		case *messages.TokensEmitted:
			if m.GetFinish() != 0 {
				finished <- struct{}{}
			}
		}
	})))
	const tokens = 1000
	b.ReportAllocs()
	for b.Loop() {
		sys.Root.Send(client, &messages.SubmitSequence{RequestId: "r", Sequence: spec(3, tokens)})
		<-finished
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
}
