package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"troupe/cluster/link"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/clock"
)

func TestNodesReachEachOther(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, inA := a.echo(t)
	_, inB := b.echo(t)
	a.waitReachable(t, inB)
	b.waitReachable(t, inA)
	wantDeadLetter(t, a.ask(b.pid("unknown"), "x"))
}

func TestMessagesKeepOrder(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	const n = 5000
	arrived := make(chan uint32, n)
	testkit.NewPeer(t, b.ActorSystem, "sink", func(m proto.Message) proto.Message {
		arrived <- m.(*messages.TokensEmitted).GetFirstIndex()
		return nil
	})
	to := b.pid("sink")
	for i := range uint32(n) {
		a.Root.Send(to, &messages.TokensEmitted{FirstIndex: i})
	}
	for i := range uint32(n) {
		if got := <-arrived; got != i {
			t.Fatalf("message %d arrived as number %d", got, i)
		}
	}
}

func TestStartRejectsConfig(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		change func(*link.Config)
		want   string
	}{
		"a taken port": {func(c *link.Config) { c.Listen = taken.Addr().String() }, "address already in use"},
		"no address":   {func(c *link.Config) { c.Listen = "here" }, "missing port"},
		"any address":  {func(c *link.Config) { c.Listen = "0.0.0.0:0" }, "set the host:port to advertise"},
		"no port":      {func(c *link.Config) { c.Advertise = "a.example" }, "must be host:port"},
		"half of TLS":  {func(c *link.Config) { c.ServerTLS = issue(t, nil).server }, "set both or neither"},
		"no provider":  {func(c *link.Config) { c.Provider = nil }, "are required"},
		"provider error": {
			func(c *link.Config) { c.Provider = stubProvider{errors.New("the bucket is gone")} }, "the bucket is gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			cfg := config(testkit.System(t))
			c.change(&cfg)
			if l, err := link.Start(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it started with %v, %v, not an error with %q", l, err, c.want)
			}
		})
	}
}

func TestAdvertisedAddress(t *testing.T) {
	for _, c := range []struct{ listen, advertise, host string }{
		{"127.0.0.1:0", "", "127.0.0.1"}, {"0.0.0.0:0", "localhost:0", "localhost"}, {"[::1]:0", "", "[::1]"},
	} {
		n := start(t, func(cfg *link.Config) { cfg.Listen, cfg.Advertise = c.listen, c.advertise })
		if host, port, _ := strings.Cut(strings.TrimPrefix(n.Address(), c.host), ":"); host != "" || port == "0" ||
			port == "" {
			t.Errorf("listening on %s and advertising %q, the address is %s", c.listen, c.advertise, n.Address())
		}
		other := start(t)
		join(n, other)
		_, to := n.echo(t)
		other.waitReachable(t, to)
	}
}

func TestNonMemberIsUnreachable(t *testing.T) {
	a := start(t)
	b, wires := startBehindProxy(t)
	_, to := b.echo(t)
	wantDeadLetter(t, a.ask(to, "x")) // it runs, but it is not a member
	if why := terminated(t, a.watch(t, to)); why != actor.TerminatedReason_AddressTerminated {
		t.Errorf("the watcher received %s", why)
	}
	p := testkit.NewPeer(t, a.ActorSystem, "asker", nil)
	p.Send(to, &messages.GetSequence{})
	testkit.Until(t, "dead letter for an actor", func() bool {
		return len(testkit.Got[*actor.DeadLetterResponse](p)) == 1
	})
	if n := wires.accepted(); n != 0 {
		t.Errorf("%d connections were dialled", n)
	}
}

// TestReplyToUnknownNode: a node that has just joined sends a request to one that does not know it
// yet.
func TestReplyToUnknownNode(t *testing.T) {
	a, b := start(t), start(t)
	_, to := b.echo(t)
	a.link.SetMembers([]string{a.Address(), b.Address()})
	if answer, err := a.ask(to, "x").Result(); err != nil {
		t.Fatalf("%v, %v", answer, err)
	}
}

func TestMemberRejoins(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, to := b.echo(t)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	a.waitReachable(t, to)
	watch := a.watch(t, b.pid("sink"))
	waiting := a.ask(b.pid("sink"), "never answered")
	testkit.Until(t, "request in flight", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })

	a.link.SetMembers([]string{a.Address()})
	wantDeadLetter(t, waiting)
	if why := terminated(t, watch); why != actor.TerminatedReason_AddressTerminated {
		t.Errorf("the watcher received %s", why)
	}
	wantDeadLetter(t, a.ask(to, "x"))

	join(a, b)
	a.waitReachable(t, to)
	watch = a.watch(t, b.pid("sink"))
	a.waitReachable(t, to) // the watch was sent before and has arrived too
	_ = b.Root.StopFuture(b.pid("sink")).Wait()
	if why := terminated(t, watch); why != actor.TerminatedReason_Stopped {
		t.Errorf("the watcher received %s", why)
	}
}

// TestRemovedMemberIsDisconnected: a node that others removed notices it, and its pending requests
// to them fail.
func TestRemovedMemberIsDisconnected(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	waiting := a.ask(b.pid("sink"), "x")
	testkit.Until(t, "request in flight", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })
	b.link.SetMembers([]string{b.Address()})
	wantDeadLetter(t, waiting)
}

func TestWatchUnknownActor(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	terminated(t, a.watch(t, b.pid("unknown")))
}

// TestConnectionRefused: the member's address refuses connections at first and accepts them later.
func TestConnectionRefused(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	a := start(t)
	a.link.SetMembers([]string{a.Address(), address})
	to := actor.NewPID(address, "echo")
	watch := a.watch(t, to)
	p := testkit.NewPeer(t, a.ActorSystem, "asker", nil)
	const n = 500
	for range n {
		p.Send(to, &messages.GetSequence{})
	}
	terminated(t, watch)
	testkit.Until(
		t,
		"dead letter for each message",
		func() bool { return len(testkit.Got[*actor.DeadLetterResponse](p)) == n },
	)
	wantDeadLetter(t, a.ask(to, "x"))
	if got := len(testkit.Got[*actor.DeadLetterResponse](p)); got != n {
		t.Errorf("%d messages had %d dead letters", n, got)
	}

	b := start(t, func(c *link.Config) { c.Listen = address })
	b.echo(t)
	a.waitReachable(t, to)
}

func TestConnectionIsCut(t *testing.T) {
	a := start(t)
	b, wires := startBehindProxy(t)
	join(a, b)
	_, to := b.echo(t)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	a.waitReachable(t, to)
	watch := a.watch(t, b.pid("sink"))
	waiting := a.ask(b.pid("sink"), "x")
	testkit.Until(t, "request in flight", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })
	wires.cut()
	wantDeadLetter(t, waiting)
	if why := terminated(t, watch); why != actor.TerminatedReason_AddressTerminated {
		t.Errorf("the watcher received %s", why)
	}
	a.waitReachable(t, to)
}

// TestReplyConnectionIsCut: the connection for the reply breaks, and the one for the request does
// not.
func TestReplyConnectionIsCut(t *testing.T) {
	a, wires := startBehindProxy(t)
	b := start(t)
	join(a, b)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	_, to := b.echo(t)
	a.waitReachable(t, to)
	waiting := a.ask(b.pid("sink"), "x")
	testkit.Until(t, "request in flight", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })
	wires.cut()
	wantDeadLetter(t, waiting)
	a.waitReachable(t, to)
}

// TestReplyIsLost: the reply is written to a connection whose end only the requesting node has
// noticed. Once the replying node has noticed it too, the next ping reports the loss. The
// connection of the request stays up.
func TestReplyIsLost(t *testing.T) {
	laterA, laterB := clock.New(), clock.New()
	a, wires := startBehindProxy(t, at(laterA))
	b := start(t, at(laterB))
	join(a, b)
	echo, to := b.echo(t)
	a.waitReachable(t, to)
	replied := func() int { return len(testkit.Got[*messages.GetSequence](echo)) }
	lostByA, lostByB, before := a.lost(), b.lost(), replied()
	wires.orphan()
	if from := <-lostByA; from != b.Address() {
		t.Errorf("the requesting node lost %s", from)
	}
	waiting := a.ask(to, "x")
	testkit.Until(t, "the reply", func() bool { return replied() > before })
	advanceUntil(t, laterB, "the replying node has noticed", func() bool { return len(lostByB) > 0 })
	laterA.Await(1)
	laterA.Advance(link.PingInterval)
	wantDeadLetter(t, waiting)
	a.waitReachable(t, to)
}

// TestSilentPeer checks that watches end if a peer falls silent while it stays a member.
func TestSilentPeer(t *testing.T) {
	later := clock.New()
	a := start(t, at(later))
	b, wires := startBehindProxy(t)
	join(a, b)
	_, to := b.echo(t)
	a.waitReachable(t, to)
	watch := a.watch(t, to)
	wires.stall()
	for _, what := range []string{"on a stalled connection", "on a new one"} {
		waiting := a.ask(to, what)
		done := ended(waiting)
		advanceUntil(t, later, "end of the request "+what, func() bool { return isClosed(done) })
		wantDeadLetter(t, waiting)
	}
	terminated(t, watch)
	wires.resume()
	a.waitReachable(t, to)
}

// TestSilentPeerLeaves: messages that wait to be written do not keep the connection to a removed
// member.
func TestSilentPeerLeaves(t *testing.T) {
	a := start(t)
	b, wires := startBehindProxy(t)
	join(a, b)
	_, to := b.echo(t)
	a.waitReachable(t, to)
	wires.stall()
	big := &messages.TokensEmitted{Tokens: make([]uint32, 1<<20)}
	p := testkit.NewPeer(t, a.ActorSystem, "asker", nil)
	for range 64 { // more than all buffers on the way hold
		p.Send(to, big)
	}
	waiting := a.ask(to, "x")
	a.link.SetMembers([]string{a.Address()})
	wantDeadLetter(t, waiting)
	testkit.Until(
		t,
		"dead letter for what was not sent",
		func() bool { return len(testkit.Got[*actor.DeadLetterResponse](p)) > 0 },
	)
}

// TestSilentPeerWithInboundOnly: the connection of a peer to this node falls silent, and with it the
// notification of a watcher here. The connection from this node to the peer stays up.
func TestSilentPeerWithInboundOnly(t *testing.T) {
	laterA, laterB := clock.New(), clock.New()
	b, wires := startBehindProxy(t, at(laterB))
	a := start(t, at(laterA))
	join(a, b)
	_, to := a.echo(t)
	b.waitReachable(t, to) // through both connections
	lostByA := a.lost()
	wires.stall()
	watch := b.watch(t, a.pid("unknown"))
	advanceUntil(t, laterA, "the peer has noticed", func() bool { return len(lostByA) > 0 })
	laterB.Await(1)
	laterB.Advance(link.PingInterval)
	terminated(t, watch)
}

func TestTokensFlowThroughCuts(t *testing.T) {
	a := start(t)
	b, wires := startBehindProxy(t)
	join(a, b)
	_, to := b.echo(t)
	for i := range 20 {
		a.waitReachable(t, to)
		if i%2 == 0 {
			wires.cut()
		}
	}
}

// unmarshalable panics when it is marshalled.
type unmarshalable struct{ *messages.GetSequence }

func (unmarshalable) ProtoReflect() protoreflect.Message { panic("changed while it was being sent") }

// TestUnmarshalable: a message that cannot be marshalled is answered at once, and no other message
// is affected.
func TestUnmarshalable(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, to := b.echo(t)
	a.waitReachable(t, to)
	for name, m := range map[string]proto.Message{
		"changed meanwhile": unmarshalable{},
		"not UTF-8":         &messages.GetSequence{RequestId: "half of a rune: \xc3"},
		"too large":         &messages.GetSequence{RequestId: strings.Repeat("x", 64<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			before := a.ask(to, "before")
			wantDeadLetter(t, a.Root.RequestFuture(b.pid("echo"), m, timeout))
			if answer, err := before.Result(); err != nil {
				t.Errorf("the request before it ended with %v, %v", answer, err)
			}
			if answer, err := a.ask(to, "after").Result(); err != nil {
				t.Errorf("the request after it ended with %v, %v", answer, err)
			}
		})
	}
}

func TestOnlyProtobufIsSent(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, to := b.echo(t)
	wantDeadLetter(t, a.Root.RequestFuture(to, struct{ n int }{1}, timeout))
	a.Root.Stop(to) // has no effect: only its own node stops an actor
	a.waitReachable(t, to)
}

func TestStopLeaksNoGoroutines(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("nodes", func(t *testing.T) {
		later := clock.New()
		a, b, c := start(t, at(later)), start(t), start(t)
		join(a, b, c)
		gone, wires := startBehindProxy(t)
		for _, n := range []*node{a, b, c} {
			n.link.SetMembers([]string{a.Address(), b.Address(), c.Address(), gone.Address()})
			n.echo(t)
		}
		_, to := gone.echo(t)
		for _, n := range []*node{a, b, c} {
			n.waitReachable(t, a.pid("echo"))
			n.waitReachable(t, b.pid("echo"))
			n.waitReachable(t, to)
		}
		wires.stall()
		waiting, stopped := a.ask(to, "x"), make(chan struct{})
		go func() { defer close(stopped); a.link.Stop(context.Background()) }()
		advanceUntil(t, later, "the link has stopped", func() bool { return isClosed(stopped) })
		wantDeadLetter(t, waiting)
		wantDeadLetter(t, a.ask(b.pid("echo"), "x"))
		wantDeadLetter(t, b.ask(a.pid("echo"), "x"))
	})
}

// TestStopFlushes: messages sent before Stop arrive.
func TestStopFlushes(t *testing.T) {
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			a, b := start(t), start(t)
			join(a, b)
			p, to := b.echo(t)
			a.waitReachable(t, to)
			const n = 200
			for range n {
				a.Root.Send(to, &messages.TokensEmitted{})
			}
			a.link.Stop(context.Background())
			testkit.Until(t, "all messages", func() bool {
				return len(testkit.Got[*messages.TokensEmitted](p)) == n
			})
		})
	}
}
