package link_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"

	"troupe/cluster/link"
	"troupe/messages"
	"troupe/testkit"
)

// releaseEndpoint makes a node release its connection to an address, as happens when a member
// leaves or a loss is detected.
func (n *node) releaseEndpoint(address string) {
	n.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: address})
}

// waitAccounted waits until each of n messages from an asker to a sink has arrived or come back as
// a dead letter. It fails the test if a message did both, or if messages arrived out of order. It
// returns the number that arrived.
func waitAccounted(t *testing.T, asker, sink *testkit.Peer, n int) (arrived int) {
	t.Helper()
	back := func() int { return len(testkit.Got[*actor.DeadLetterResponse](asker)) }
	testkit.Until(t, "end of each message", func() bool {
		arrived = len(testkit.Got[*messages.GetSequence](sink))
		return arrived+back() >= n
	})
	last := ""
	for _, m := range testkit.Got[*messages.GetSequence](sink) {
		if m.GetRequestId() <= last {
			t.Errorf("%s arrived after %s", m.GetRequestId(), last)
		}
		last = m.GetRequestId()
	}
	if arrived+back() != n {
		t.Errorf("of %d messages %d arrived and %d came back", n, arrived, back())
	}
	return arrived
}

func sendAll(asker *testkit.Peer, to *actor.PID, n int) {
	for i := range n {
		asker.Send(to, &messages.GetSequence{RequestId: fmt.Sprintf("%06d", i)})
	}
}

// TestQueuedWhileConnecting: the peer accepts the connection and stays silent for a moment.
func TestQueuedWhileConnecting(t *testing.T) {
	a := start(t)
	b, wires := startBehindProxy(t)
	join(a, b)
	wires.stall()
	asker, sink := testkit.NewPeer(t, a.ActorSystem, "asker", nil), testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	const n = 500
	sendAll(asker, b.pid("sink"), n)
	testkit.Until(t, "attempt to connect", func() bool { return wires.accepted() > 0 })
	wires.resume()
	waitAccounted(t, asker, sink, n)
}

// TestLeavesWhileConnecting: the endpoint ends before it is connected.
func TestLeavesWhileConnecting(t *testing.T) {
	a := start(t)
	b, wires := startBehindProxy(t)
	join(a, b)
	wires.stall()
	asker, sink := testkit.NewPeer(t, a.ActorSystem, "asker", nil), testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	const n = 500
	sendAll(asker, b.pid("sink"), n)
	watch, waiting := a.watch(t, b.pid("sink")), a.ask(b.pid("sink"), "x")
	testkit.Until(t, "attempt to connect", func() bool { return wires.accepted() > 0 })
	a.link.SetMembers([]string{a.Address()})
	wantDeadLetter(t, waiting)
	if why := terminated(t, watch); why != actor.TerminatedReason_AddressTerminated {
		t.Errorf("the watcher received %s", why)
	}
	if arrived := waitAccounted(t, asker, sink, n); arrived != 0 {
		t.Errorf("%d messages arrived through a stalled connection", arrived)
	}
}

// TestEndsWhileReconnecting: the connection is cut, the next one stalls, and the address is
// released meanwhile, several times.
func TestEndsWhileReconnecting(t *testing.T) {
	a := start(t)
	b, wires := startBehindProxy(t)
	join(a, b)
	_, to := b.echo(t)
	a.waitReachable(t, to)
	cut := a.watch(t, b.pid("echo"))
	wires.stall()
	wires.cut()
	terminated(t, cut) // messages sent before this may be lost with the connection
	asker, sink := testkit.NewPeer(t, a.ActorSystem, "asker", nil), testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	const rounds, each = 10, 50
	for range rounds {
		sendAll(asker, b.pid("sink"), each)
		watch := a.watch(t, b.pid("sink"))
		a.releaseEndpoint(b.Address())
		terminated(t, watch)
	}
	a.link.SetMembers([]string{a.Address()})
	if arrived := waitAccounted(t, asker, sink, rounds*each); arrived != 0 {
		t.Errorf("%d messages arrived through a stalled connection", arrived)
	}
}

// TestNoMessageLostWhenEndpointEnds: many actors send while their endpoint ends. Each message
// arrives, or comes back because a new connection takes too long, but never both.
func TestNoMessageLostWhenEndpointEnds(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	const actors, each = 8, 200
	var peers []*testkit.Peer
	var askers sync.WaitGroup
	for i := range actors {
		asker := testkit.NewPeer(t, a.ActorSystem, fmt.Sprint("asker-", i), nil)
		peers = append(peers, asker)
		askers.Go(func() {
			for j := range each {
				asker.Send(b.pid("sink"), &messages.GetSequence{RequestId: fmt.Sprintf("%d-%d", i, j)})
				if i == 0 && j%50 == 25 {
					a.releaseEndpoint(b.Address())
				}
			}
		})
	}
	askers.Wait()
	ends := func() (arrived, back int) {
		for _, p := range peers {
			back += len(testkit.Got[*actor.DeadLetterResponse](p))
		}
		return len(testkit.Got[*messages.GetSequence](sink)), back
	}
	testkit.Until(t, "end of each message", func() bool {
		arrived, back := ends()
		return arrived+back >= actors*each
	})
	if arrived, back := ends(); arrived+back != actors*each {
		t.Errorf("of %d messages %d arrived and %d came back", actors*each, arrived, back)
	}
	came := map[string]bool{}
	for _, m := range testkit.Got[*messages.GetSequence](sink) {
		if came[m.GetRequestId()] {
			t.Errorf("%s arrived twice", m.GetRequestId())
		}
		came[m.GetRequestId()] = true
	}
}

// TestEveryRequestEnds: members leave and rejoin while they are sent requests and watched. No
// request times out, and every watcher is notified.
func TestEveryRequestEnds(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, to := b.echo(t)
	var askers sync.WaitGroup
	for range 4 {
		askers.Go(func() {
			for range 100 {
				if answer, err := a.ask(to, "x").Result(); err != nil && !errors.Is(err, actor.ErrDeadLetter) {
					t.Errorf("a request ended with %v, %v", answer, err)
				}
				<-a.watch(t, b.pid("unknown"))
			}
		})
	}
	over := make(chan struct{})
	go func() { askers.Wait(); close(over) }()
	for {
		select {
		case <-over:
			a.waitReachable(t, to)
			return
		default:
			a.link.SetMembers([]string{a.Address()})
			a.link.SetMembers([]string{a.Address(), b.Address()})
		}
	}
}

// TestWatchersNotifiedOnce: actors are watched while the endpoint ends and while they die.
func TestWatchersNotifiedOnce(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	_, to := b.echo(t)
	const n = 100
	var watches []<-chan *actor.Terminated
	for i := range n {
		testkit.NewPeer(t, b.ActorSystem, fmt.Sprint("watched-", i), nil)
		watches = append(watches, a.watch(t, b.pid(fmt.Sprint("watched-", i))))
		switch i % 20 {
		case 5:
			a.releaseEndpoint(b.Address())
		case 15:
			for j := i - 10; j < i; j++ {
				b.Root.Stop(b.pid(fmt.Sprint("watched-", j)))
			}
		}
	}
	a.releaseEndpoint(b.Address())
	for _, watch := range watches {
		terminated(t, watch)
	}
	a.waitReachable(t, to) // every notification that b sent before has arrived
	for i, watch := range watches {
		if len(watch) != 0 {
			t.Errorf("the watcher of %d was notified twice", i)
		}
	}
}

// TestNodeReplacedAtSameAddress: a node ends and another starts at its address, with and without a
// change of the membership.
func TestNodeReplacedAtSameAddress(t *testing.T) {
	for name, told := range map[string]bool{"as a member that left": true, "before anyone noticed": false} {
		t.Run(name, func(t *testing.T) {
			a, b := start(t), start(t)
			join(a, b)
			_, to := b.echo(t)
			sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
			a.waitReachable(t, to)
			watch, waiting := a.watch(t, b.pid("sink")), a.ask(b.pid("sink"), "x")
			testkit.Until(t, "request in flight", func() bool {
				return len(testkit.Got[*messages.GetSequence](sink)) == 1
			})
			b.link.Stop(context.Background())
			if told {
				a.link.SetMembers([]string{a.Address()})
			}
			again := start(t, func(c *link.Config) { c.Listen = b.Address() })
			_, to = again.echo(t)
			asker, sink2 := testkit.NewPeer(
				t,
				a.ActorSystem,
				"asker",
				nil,
			), testkit.NewPeer(
				t,
				again.ActorSystem,
				"sink",
				nil,
			)
			join(a, again)
			wantDeadLetter(t, waiting)
			terminated(t, watch)
			a.waitReachable(t, to)
			const n = 100
			sendAll(asker, again.pid("sink"), n)
			if arrived := waitAccounted(t, asker, sink2, n); arrived != n {
				t.Errorf("%d of %d messages arrived", arrived, n)
			}
			watch = a.watch(t, again.pid("sink"))
			a.waitReachable(t, to)
			_ = again.Root.StopFuture(again.pid("sink")).Wait()
			if why := terminated(t, watch); why != actor.TerminatedReason_Stopped {
				t.Errorf("the watcher received %s", why)
			}
		})
	}
}
