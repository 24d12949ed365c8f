package link

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
)

type stubProvider struct{ cluster.IdentityLookup }

func (stubProvider) StartMember(*cluster.Cluster) error     { return nil }
func (stubProvider) StartClient(*cluster.Cluster) error     { return nil }
func (stubProvider) Shutdown(bool) error                    { return nil }
func (stubProvider) Setup(*cluster.Cluster, []string, bool) {}

type stubLookup struct{ stubProvider }

func (stubLookup) Shutdown() {}

// FuzzInbound delivers any batch that parses and checks that nothing panics.
func FuzzInbound(f *testing.F) {
	l, err := Start(
		context.Background(),
		Config{
			System:   testkit.System(f),
			Listen:   "127.0.0.1:0",
			Provider: stubProvider{},
			Lookup:   stubLookup{},
			Log:      zerolog.Nop(),
		},
	)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Stop(context.Background()) })
	in := &inbound{link: l, peer: "127.0.0.1:2"}
	here, there := actor.NewPID(l.cfg.System.Address(), "x"), actor.NewPID(in.peer, "x")
	for _, m := range []proto.Message{
		&messages.GetSequence{RequestId: "r"}, &actor.Watch{Watcher: there}, &actor.Unwatch{Watcher: there},
		&actor.Stop{},
		&actor.Terminated{Who: there}, &actor.Terminated{Who: here}, &actor.DeadLetterResponse{Target: here},
		&remote.ActorPidRequest{Name: "x"},
	} {
		data, _ := proto.Marshal(m)
		batch, err := proto.Marshal(&remote.MessageBatch{
			TypeNames: []string{
				string(proto.MessageName(m)),
			}, Targets: []string{"x"}, Senders: []*actor.PID{here, there},
			Envelopes: []*remote.MessageEnvelope{
				{MessageData: data},
				{MessageData: data, Sender: 2, TargetRequestId: 1, SenderRequestId: 1},
				{TypeId: 1},
			},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(batch)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		batch := &remote.MessageBatch{}
		if proto.Unmarshal(data, batch) != nil {
			t.Skip()
		}
		in.deliver(batch)
	})
}
