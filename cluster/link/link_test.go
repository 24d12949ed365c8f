package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"troupe/cluster/link"
	"troupe/messages"
	"troupe/testkit"
)

func TestNodesReachEachOther(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, inA := a.echo(t)
	_, inB := b.echo(t)
	a.reaches(t, inB)
	b.reaches(t, inA)
	dead(t, a.ask(b.pid("nobody"), "x"))
}

func TestOrderIsKept(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	p, to := b.echo(t)
	const n = 5000
	for i := range n {
		a.Root.Send(to, &messages.TokensEmitted{FirstIndex: uint32(i)})
	}
	until(t, "all messages", func() bool { return len(testkit.Got[*messages.TokensEmitted](p)) == n })
	for i, m := range testkit.Got[*messages.TokensEmitted](p) {
		if m.GetFirstIndex() != uint32(i) {
			t.Fatalf("message %d came at place %d", m.GetFirstIndex(), i)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		change func(*link.Config)
		want   string
	}{
		"a taken port":      {func(c *link.Config) { c.Listen = taken.Addr().String() }, "address already in use"},
		"no address":        {func(c *link.Config) { c.Listen = "here" }, "missing port"},
		"any address":       {func(c *link.Config) { c.Listen = "0.0.0.0:0" }, "say which host:port to advertise"},
		"no port":           {func(c *link.Config) { c.Advertise = "a.example" }, "must be host:port"},
		"half of TLS":       {func(c *link.Config) { c.ServerTLS = issue(t, nil).server }, "give both or none"},
		"no provider":       {func(c *link.Config) { c.Provider = nil }, "must be given"},
		"a provider's word": {func(c *link.Config) { c.Provider = told{errors.New("the bucket is gone")} }, "the bucket is gone"},
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

func TestAddressTellsThePort(t *testing.T) {
	for _, c := range []struct{ listen, advertise, host string }{
		{"127.0.0.1:0", "", "127.0.0.1"}, {"0.0.0.0:0", "localhost:0", "localhost"}, {"[::1]:0", "", "[::1]"},
	} {
		n := start(t, func(cfg *link.Config) { cfg.Listen, cfg.Advertise = c.listen, c.advertise })
		if host, port, _ := strings.Cut(strings.TrimPrefix(n.Address(), c.host), ":"); host != "" || port == "0" || port == "" {
			t.Errorf("listening on %s, told %q: the address is %s", c.listen, c.advertise, n.Address())
		}
		other := start(t)
		join(n, other)
		_, to := n.echo(t)
		other.reaches(t, to)
	}
}

func TestNoMemberLivesThere(t *testing.T) {
	a := start(t)
	b, wires := behind(t)
	_, to := b.echo(t)
	dead(t, a.ask(to, "x")) // it is there, but nobody has said so
	if why := terminated(t, a.watch(t, to)); why != actor.TerminatedReason_AddressTerminated {
		t.Errorf("the watcher was told %s", why)
	}
	p := testkit.NewPeer(t, a.ActorSystem, "asker", nil)
	p.Send(to, &messages.GetSequence{})
	until(t, "dead letter for an actor", func() bool { return len(testkit.Got[*actor.DeadLetterResponse](p)) == 1 })
	if n := wires.accepted(); n != 0 {
		t.Errorf("%d connections were tried", n)
	}
}

// TestAnswerBeforeTheNews: a node that has just joined asks one that has not heard of it yet.
func TestAnswerBeforeTheNews(t *testing.T) {
	a, b := start(t), start(t)
	_, to := b.echo(t)
	a.link.SetMembers([]string{a.Address(), b.Address()})
	if answer, err := a.ask(to, "x").Result(); err != nil {
		t.Fatalf("%v, %v", answer, err)
	}
}

func TestMemberLeavesAndComesBack(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, to := b.echo(t)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	a.reaches(t, to)
	watch := a.watch(t, b.pid("sink"))
	waiting := a.ask(b.pid("sink"), "never answered")
	until(t, "request in flight", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })

	a.link.SetMembers([]string{a.Address()})
	dead(t, waiting)
	if why := terminated(t, watch); why != actor.TerminatedReason_AddressTerminated {
		t.Errorf("the watcher was told %s", why)
	}
	dead(t, a.ask(to, "x"))

	join(a, b)
	a.reaches(t, to)
	watch = a.watch(t, b.pid("sink"))
	a.reaches(t, to) // and so has the watch, which was sent before
	_ = b.Root.StopFuture(b.pid("sink")).Wait()
	if why := terminated(t, watch); why != actor.TerminatedReason_Stopped {
		t.Errorf("the watcher was told %s", why)
	}
}

// TestWhoLeftIsTold: a node that others hold for gone learns it, so that what waits there for them does not wait on.
func TestWhoLeftIsTold(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	waiting := a.ask(b.pid("sink"), "x")
	until(t, "request in flight", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })
	b.link.SetMembers([]string{b.Address()})
	dead(t, waiting)
}

func TestWatchOfNobody(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	terminated(t, a.watch(t, b.pid("nobody")))
}

// TestNobodyListens: the member's address refuses connections, and then takes them.
func TestNobodyListens(t *testing.T) {
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
	until(t, "dead letter for each message", func() bool { return len(testkit.Got[*actor.DeadLetterResponse](p)) == n })
	dead(t, a.ask(to, "x"))
	if got := len(testkit.Got[*actor.DeadLetterResponse](p)); got != n {
		t.Errorf("%d messages had %d dead letters", n, got)
	}

	b := start(t, func(c *link.Config) { c.Listen = address })
	b.echo(t)
	a.reaches(t, to)
}

func TestConnectionIsCut(t *testing.T) {
	a := start(t)
	b, wires := behind(t)
	join(a, b)
	_, to := b.echo(t)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	a.reaches(t, to)
	watch := a.watch(t, b.pid("sink"))
	waiting := a.ask(b.pid("sink"), "x")
	until(t, "request in flight", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })
	wires.cut()
	dead(t, waiting)
	if why := terminated(t, watch); why != actor.TerminatedReason_AddressTerminated {
		t.Errorf("the watcher was told %s", why)
	}
	a.reaches(t, to)
}

// TestAnswersAreCut: the connection on which the answer would come breaks, the one of the request does not.
func TestAnswersAreCut(t *testing.T) {
	a, wires := behind(t)
	b := start(t)
	join(a, b)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	_, to := b.echo(t)
	a.reaches(t, to)
	waiting := a.ask(b.pid("sink"), "x")
	until(t, "request in flight", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })
	wires.cut()
	dead(t, waiting)
	a.reaches(t, to)
}

// TestAnswerIsLost: the answer goes into a connection that has ended for the asker, and not yet for who answers. It is asked
// after the asker has noticed; its own connection is sound all the time.
func TestAnswerIsLost(t *testing.T) {
	a, wires := behind(t)
	b := start(t)
	join(a, b)
	_, to := b.echo(t)
	a.reaches(t, to)
	noticed := make(chan struct{}, 8)
	a.EventStream.Subscribe(func(event any) {
		if e, ok := event.(*remote.EndpointTerminatedEvent); ok && e.Address == b.Address() {
			noticed <- struct{}{}
		}
	})
	wires.orphan()
	<-noticed
	dead(t, a.ask(to, "x"))
	a.reaches(t, to)
}

// TestPeerIsSilent: nothing passes any more, and no membership says so.
func TestPeerIsSilent(t *testing.T) {
	a := start(t)
	b, wires := behind(t)
	join(a, b)
	_, to := b.echo(t)
	a.reaches(t, to)
	watch := a.watch(t, to)
	wires.stall()
	dead(t, a.ask(to, "on a stalled connection"))
	terminated(t, watch)
	dead(t, a.ask(to, "on a new one"))
	wires.resume()
	a.reaches(t, to)
}

// TestSilentPeerLeaves: what waits to be written to it does not keep its connection.
func TestSilentPeerLeaves(t *testing.T) {
	a := start(t)
	b, wires := behind(t)
	join(a, b)
	_, to := b.echo(t)
	a.reaches(t, to)
	wires.stall()
	big := &messages.TokensEmitted{Tokens: make([]uint32, 1<<20)}
	p := testkit.NewPeer(t, a.ActorSystem, "asker", nil)
	for range 64 { // more than all buffers on the way take
		p.Send(to, big)
	}
	waiting := a.ask(to, "x")
	a.link.SetMembers([]string{a.Address()})
	dead(t, waiting)
	until(t, "dead letter for what was not sent", func() bool { return len(testkit.Got[*actor.DeadLetterResponse](p)) > 0 })
}

// TestPeerOfAnswersIsSilent: only the peer has a connection here, and it goes quiet.
func TestPeerOfAnswersIsSilent(t *testing.T) {
	b, wires := behind(t)
	a := start(t)
	join(a, b)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	a.Root.Send(b.pid("sink"), &messages.GetSequence{})
	until(t, "message", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })
	watch := b.watch(t, a.pid("nobody in particular"))
	wires.stall()
	terminated(t, watch)
}

func TestTokensFlowThroughCuts(t *testing.T) {
	a := start(t)
	b, wires := behind(t)
	join(a, b)
	_, to := b.echo(t)
	for i := range 20 {
		a.reaches(t, to)
		if i%2 == 0 {
			wires.cut()
		}
	}
}

// unmarshalable panics where it is marshalled.
type unmarshalable struct{ *messages.GetSequence }

func (unmarshalable) ProtoReflect() protoreflect.Message { panic("changed while it was being sent") }

// TestUnmarshalable: what can not be written is answered at once, and nothing else suffers.
func TestUnmarshalable(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, to := b.echo(t)
	a.reaches(t, to)
	for name, m := range map[string]proto.Message{
		"changed meanwhile": unmarshalable{},
		"not UTF-8":         &messages.GetSequence{RequestId: "half of a rune: \xc3"},
		"too large":         &messages.GetSequence{RequestId: strings.Repeat("x", 64<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			before := a.ask(to, "before")
			dead(t, a.Root.RequestFuture(b.pid("echo"), m, within))
			if answer, err := before.Result(); err != nil {
				t.Errorf("the request before it ended with %v, %v", answer, err)
			}
			if answer, err := a.ask(to, "after").Result(); err != nil {
				t.Errorf("the request after it ended with %v, %v", answer, err)
			}
		})
	}
}

func TestOnlyProtobufTravels(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, to := b.echo(t)
	dead(t, a.Root.RequestFuture(to, struct{ n int }{1}, within))
	a.Root.Stop(to) // an actor is stopped by its own node
	a.reaches(t, to)
}

func TestStopLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("nodes", func(t *testing.T) {
		a, b, c := start(t), start(t), start(t)
		join(a, b, c)
		gone, wires := behind(t)
		for _, n := range []*node{a, b, c} {
			n.link.SetMembers([]string{a.Address(), b.Address(), c.Address(), gone.Address()})
			n.echo(t)
		}
		_, to := gone.echo(t)
		for _, n := range []*node{a, b, c} {
			n.reaches(t, a.pid("echo"))
			n.reaches(t, b.pid("echo"))
			n.reaches(t, to)
		}
		wires.stall()
		waiting := a.ask(to, "x")
		a.link.Stop(context.Background())
		dead(t, waiting)
		dead(t, a.ask(b.pid("echo"), "x"))
		dead(t, b.ask(a.pid("echo"), "x"))
	})
}

// TestStopDelivers: what was sent before Stop arrives.
func TestStopDelivers(t *testing.T) {
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			a, b := start(t), start(t)
			join(a, b)
			p, to := b.echo(t)
			a.reaches(t, to)
			const n = 200
			for range n {
				a.Root.Send(to, &messages.TokensEmitted{})
			}
			a.link.Stop(context.Background())
			until(t, "all messages", func() bool { return len(testkit.Got[*messages.TokensEmitted](p)) == n })
		})
	}
}
