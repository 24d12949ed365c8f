package link_test

import (
	"context"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
)

// peer opens a stream to a node, on which the test speaks remote's protocol itself.
func peer(t testing.TB, to *node) (remote.RemotingClient, remote.Remoting_ReceiveClient) {
	t.Helper()
	conn, err := grpc.NewClient(to.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := remote.NewRemotingClient(conn)
	stream, err := client.Receive(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return client, stream
}

// handshake makes the stream speak for a node.
func handshake(t testing.TB, stream remote.Remoting_ReceiveClient, as string) {
	t.Helper()
	send(
		t,
		stream,
		&remote.RemoteMessage{
			MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
				ConnectionType: &remote.ConnectRequest_ServerConnection{
					ServerConnection: &remote.ServerConnection{MemberId: "by hand", Address: as},
				},
			}},
		},
	)
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
}

func send(t testing.TB, stream remote.Remoting_ReceiveClient, m *remote.RemoteMessage) {
	t.Helper()
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
}

func batchOf(b *remote.MessageBatch) *remote.RemoteMessage {
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: b}}
}

// newBatch packs messages from one sender to the actor echo.
func newBatch(from *actor.PID, all ...proto.Message) *remote.MessageBatch {
	b := &remote.MessageBatch{Targets: []string{"echo"}, Senders: []*actor.PID{from}}
	for i, m := range all {
		data, _ := proto.Marshal(m)
		b.TypeNames = append(b.TypeNames, string(proto.MessageName(m)))
		b.Envelopes = append(b.Envelopes, &remote.MessageEnvelope{TypeId: int32(i), MessageData: data, Sender: 1})
	}
	return b
}

// TestRefusesBadMessages sends messages that a node must refuse and valid ones in one batch.
func TestRefusesBadMessages(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, to := b.echo(t)
	asker := testkit.NewPeer(t, a.ActorSystem, "asker", nil)
	_, stream := peer(t, b)
	handshake(t, stream, a.Address())

	good := &messages.GetSequence{RequestId: "good"}
	batch := newBatch(
		a.pid("asker"),
		good,
		good,
		good,
		&actor.Stop{},
		&actor.PoisonPill{},
		&cluster.GossipRequest{},
		&remote.ActorPidRequest{Name: "x", Kind: "y"},
		good,
	)
	batch.TypeNames[0] = "troupe.v1.InventedLater"
	batch.Envelopes[1].MessageData = []byte{0xff}
	batch.Envelopes[2].MessageData = []byte{0x0a, 0x01, 0xff} // a string that is not UTF-8
	send(t, stream, batchOf(batch))

	testkit.Until(t, "refusal of each", func() bool { return len(testkit.Got[*messages.Refused](asker)) == 7 })
	for i, want := range []string{
		b.Address() + " does not know troupe.v1.InventedLater, sent by " + a.Address() + ": " +
			b.Address() + " is the older",
		"cannot read troupe.v1.GetSequence", "cannot read troupe.v1.GetSequence",
		`"actor.Stop"`, `"actor.PoisonPill"`, `"cluster.GossipRequest"`, `"remote.ActorPidRequest"`,
	} {
		got := testkit.Got[*messages.Refused](asker)[i]
		if !strings.Contains(got.GetDetail(), want) || got.GetReason() == messages.Reason_REASON_UNSPECIFIED {
			t.Errorf("refusal %d is %s %q, without %q", i, got.GetReason(), got.GetDetail(), want)
		}
	}
	if got := testkit.Got[*messages.Refused](asker)[0].GetReason(); got != messages.Reason_REASON_UNSUPPORTED {
		t.Errorf("an unknown type was refused with %s", got)
	}
	testkit.Until(
		t,
		"answer to the rest of the batch",
		func() bool { return len(testkit.Got[*messages.SequenceStatus](asker)) == 1 },
	)
	send(t, stream, batchOf(newBatch(a.pid("asker"), good)))
	testkit.Until(
		t,
		"answer on the same stream",
		func() bool { return len(testkit.Got[*messages.SequenceStatus](asker)) == 2 },
	)
	a.waitReachable(t, to)
}

// TestDropsMalformedMessages sends messages that have no valid sender to answer: indices out of
// range, and watches and deaths of other nodes' actors.
func TestDropsMalformedMessages(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	b.echo(t)
	asker := testkit.NewPeer(t, a.ActorSystem, "asker", nil)
	_, stream := peer(t, b)
	handshake(t, stream, a.Address())
	good := &messages.GetSequence{RequestId: "good"}
	elsewhere := actor.NewPID("127.0.0.1:1", "x")
	for name, spoil := range map[string]func(*remote.MessageBatch){
		"type":            func(m *remote.MessageBatch) { m.Envelopes[0].TypeId = 1 },
		"negative type":   func(m *remote.MessageBatch) { m.Envelopes[0].TypeId = -1 },
		"target":          func(m *remote.MessageBatch) { m.Envelopes[0].Target = 1 },
		"negative target": func(m *remote.MessageBatch) { m.Envelopes[0].Target = -1 },
		"sender":          func(m *remote.MessageBatch) { m.Envelopes[0].Sender = 2 },
		"negative sender": func(m *remote.MessageBatch) { m.Envelopes[0].Sender = -1 },
		"json":            func(m *remote.MessageBatch) { m.Envelopes[0].SerializerId = 1 },
		"other's watch": func(m *remote.MessageBatch) {
			*m = *newBatch(elsewhere, &actor.Watch{Watcher: elsewhere})
		},
		"watch without watcher":   func(m *remote.MessageBatch) { *m = *newBatch(elsewhere, &actor.Watch{}) },
		"unwatch without watcher": func(m *remote.MessageBatch) { *m = *newBatch(elsewhere, &actor.Unwatch{}) },
		"other's death": func(m *remote.MessageBatch) {
			*m = *newBatch(elsewhere, &actor.Terminated{Who: elsewhere})
		},
		"death without actor": func(m *remote.MessageBatch) { *m = *newBatch(elsewhere, &actor.Terminated{}) },
	} {
		batch := newBatch(a.pid("asker"), good)
		spoil(batch)
		before := len(testkit.Got[*messages.SequenceStatus](asker))
		send(t, stream, batchOf(batch))
		send(t, stream, batchOf(newBatch(a.pid("asker"), good)))
		testkit.Until(
			t,
			"answer after "+name,
			func() bool { return len(testkit.Got[*messages.SequenceStatus](asker)) == before+1 },
		)
	}
}

func TestPeerMustAnnounceAddress(t *testing.T) {
	b := start(t)
	_, stream := peer(t, b)
	send(t, stream, batchOf(&remote.MessageBatch{}))
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a stream without an address ended with %v", err)
	}
	client, _ := peer(t, b)
	if _, err := client.ListProcesses(context.Background(), &remote.ListProcessesRequest{}); status.Code(
		err,
	) != codes.Unimplemented {
		t.Errorf("a call was answered with %v", err)
	}
}

// TestWatchForOtherNodeIsDropped: a peer may not watch in another node's name. That node would
// receive a death it did not ask about.
func TestWatchForOtherNodeIsDropped(t *testing.T) {
	a, b, c := start(t), start(t), start(t)
	join(a, b, c)
	told := make(chan *actor.Terminated, 1)
	victim := c.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*actor.Terminated); ok {
			told <- m
		}
	}))
	_, stream := peer(t, b)
	handshake(t, stream, a.Address())
	batch := newBatch(a.pid("asker"), &actor.Watch{Watcher: victim}, &messages.GetSequence{})
	batch.Targets[0] = "unknown" // watching it is answered at once
	batch.Targets = append(batch.Targets, "echo")
	batch.Envelopes[1].Target = 1
	asker := testkit.NewPeer(t, a.ActorSystem, "asker", nil)
	_, to := b.echo(t)
	send(t, stream, batchOf(batch))
	testkit.Until(t, "answer", func() bool { return len(testkit.Got[*messages.SequenceStatus](asker)) == 1 })
	c.waitReachable(t, to) // its answer comes after anything that b sent to the victim
	select {
	case m := <-told:
		t.Errorf("received the death of %s", m.Who)
	default:
	}
}
