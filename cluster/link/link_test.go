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
