package replica_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// BenchmarkGateLookup looks up the gate of a restore, as a step does once for each sequence that is being
// restored. BenchmarkGateMessage asks another actor instead.
func BenchmarkGateLookup(b *testing.B) {
	var gates engine.Gates
	for n := range uint64(16) {
		gates.Put(n, openGate{})
	}
	for b.Loop() {
		if _, err := gates.Find(7); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGateMessage(b *testing.B) {
	sys := testkit.System(b)
	pid := sys.Root.Spawn(supervise.Props(func() actor.Actor { return answerer{} }))
	for b.Loop() {
		if _, err := sys.Root.RequestFuture(pid, &messages.GetReplica{}, time.Minute).Result(); err != nil {
			b.Fatal(err)
		}
	}
}

type answerer struct{}

func (answerer) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*messages.GetReplica); ok {
		ctx.Respond(&messages.ReplicaStatus{})
	}
}

// openGate is a gate whose parts are all there.
type openGate struct{ engine.Gate }
