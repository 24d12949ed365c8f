package link_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"

	"troupe/cluster/link"
	"troupe/messages"
	"troupe/testkit"
)

// forget has a node release its connection with an address, as a member list and a peer's word of a loss do.
func (n *node) forget(address string) {
	n.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: address})
}

// accounted waits until each of n messages from an asker to a sink has arrived or come back as a dead letter, and fails the test
// where one did both, or the ones that arrived did so out of order. It returns how many arrived.
func accounted(t *testing.T, asker, sink *testkit.Peer, n int) (arrived int) {
	t.Helper()
	back := func() int { return len(testkit.Got[*actor.DeadLetterResponse](asker)) }
	until(t, "end of each message", func() bool {
		arrived = len(testkit.Got[*messages.GetSequence](sink))
		return arrived+back() >= n
	})
	last := ""
	for _, m := range testkit.Got[*messages.GetSequence](sink) {
		if m.GetRequestId() <= last {
			t.Errorf("%s came after %s", m.GetRequestId(), last)
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

// TestQueuedWhileConnecting: the peer accepts, and says nothing for a moment.
func TestQueuedWhileConnecting(t *testing.T) {
	a := start(t)
	b, wires := behind(t)
	join(a, b)
	wires.stall()
	asker, sink := testkit.NewPeer(t, a.ActorSystem, "asker", nil), testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	const n = 500
	sendAll(asker, b.pid("sink"), n)
	until(t, "attempt to connect", func() bool { return wires.accepted() > 0 })
	wires.resume()
	accounted(t, asker, sink, n)
}

// TestLeavesWhileConnecting: the endpoint ends before it ever was one.
func TestLeavesWhileConnecting(t *testing.T) {
	a := start(t)
	b, wires := behind(t)
	join(a, b)
	wires.stall()
	asker, sink := testkit.NewPeer(t, a.ActorSystem, "asker", nil), testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	const n = 500
	sendAll(asker, b.pid("sink"), n)
	watch, waiting := a.watch(t, b.pid("sink")), a.ask(b.pid("sink"), "x")
	until(t, "attempt to connect", func() bool { return wires.accepted() > 0 })
	a.link.SetMembers([]string{a.Address()})
	dead(t, waiting)
	if why := terminated(t, watch); why != actor.TerminatedReason_AddressTerminated {
		t.Errorf("the watcher was told %s", why)
	}
	if arrived := accounted(t, asker, sink, n); arrived != 0 {
		t.Errorf("%d messages arrived through a stalled connection", arrived)
	}
}

// TestEndsWhileReconnecting: the connection is cut, the next one hangs, and the address is given up meanwhile, again and again.
func TestEndsWhileReconnecting(t *testing.T) {
	a := start(t)
	b, wires := behind(t)
	join(a, b)
	_, to := b.echo(t)
	a.reaches(t, to)
	cut := a.watch(t, b.pid("echo"))
	wires.stall()
	wires.cut()
	terminated(t, cut) // what is sent before that may be lost with the connection
	asker, sink := testkit.NewPeer(t, a.ActorSystem, "asker", nil), testkit.NewPeer(t, b.ActorSystem, "sink", nil)
	const rounds, each = 10, 50
	for range rounds {
		sendAll(asker, b.pid("sink"), each)
		watch := a.watch(t, b.pid("sink"))
		a.forget(b.Address())
		terminated(t, watch)
	}
	a.link.SetMembers([]string{a.Address()})
	if arrived := accounted(t, asker, sink, rounds*each); arrived != 0 {
		t.Errorf("%d messages arrived through a stalled connection", arrived)
	}
}

// TestNothingIsLostAtTheEnd: messages are sent while their endpoint ends, from many actors. Each arrives, or comes back where a
// new connection takes too long, and never both.
func TestNothingIsLostAtTheEnd(t *testing.T) {
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
					a.forget(b.Address())
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
	until(t, "end of each message", func() bool { arrived, back := ends(); return arrived+back >= actors*each })
	if arrived, back := ends(); arrived+back != actors*each {
		t.Errorf("of %d messages %d arrived and %d came back", actors*each, arrived, back)
	}
	came := map[string]bool{}
	for _, m := range testkit.Got[*messages.GetSequence](sink) {
		if came[m.GetRequestId()] {
			t.Errorf("%s came twice", m.GetRequestId())
		}
		came[m.GetRequestId()] = true
	}
}

// TestEveryRequestEnds: members leave and come back while they are asked and watched. No request waits for its time-out, and no
// watcher for ever.
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
				select {
				case <-a.watch(t, b.pid("nobody")):
				case <-time.After(within):
					t.Error("a watcher was not told")
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { askers.Wait(); close(over) }()
	for {
		select {
		case <-over:
			a.reaches(t, to)
			return
		default:
			a.link.SetMembers([]string{a.Address()})
			a.link.SetMembers([]string{a.Address(), b.Address()})
		}
	}
}

// TestWatchersAreToldOnce: actors are watched while the endpoint ends and they die.
func TestWatchersAreToldOnce(t *testing.T) {
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
			a.forget(b.Address())
		case 15:
			for j := i - 10; j < i; j++ {
				b.Root.Stop(b.pid(fmt.Sprint("watched-", j)))
			}
		}
	}
	a.forget(b.Address())
	for _, watch := range watches {
		terminated(t, watch)
	}
	a.reaches(t, to) // whatever b has said of them by now has come
	for i, watch := range watches {
		if len(watch) != 0 {
			t.Errorf("the watcher of %d was told twice", i)
		}
	}
}

// TestComesBackAsAnother: a node ends, and another starts at its address, with and without word of the membership.
func TestComesBackAsAnother(t *testing.T) {
	for name, told := range map[string]bool{"as a member that left": true, "before anyone noticed": false} {
		t.Run(name, func(t *testing.T) {
			a, b := start(t), start(t)
			join(a, b)
			_, to := b.echo(t)
			sink := testkit.NewPeer(t, b.ActorSystem, "sink", nil)
			a.reaches(t, to)
			watch, waiting := a.watch(t, b.pid("sink")), a.ask(b.pid("sink"), "x")
			until(t, "request in flight", func() bool { return len(testkit.Got[*messages.GetSequence](sink)) == 1 })
			b.link.Stop(context.Background())
			if told {
				a.link.SetMembers([]string{a.Address()})
			}
			again := start(t, func(c *link.Config) { c.Listen = b.Address() })
			_, to = again.echo(t)
			asker, sink2 := testkit.NewPeer(t, a.ActorSystem, "asker", nil), testkit.NewPeer(t, again.ActorSystem, "sink", nil)
			join(a, again)
			dead(t, waiting)
			terminated(t, watch)
			a.reaches(t, to)
			const n = 100
			sendAll(asker, again.pid("sink"), n)
			if arrived := accounted(t, asker, sink2, n); arrived != n {
				t.Errorf("%d of %d messages arrived", arrived, n)
			}
			watch = a.watch(t, again.pid("sink"))
			a.reaches(t, to)
			_ = again.Root.StopFuture(again.pid("sink")).Wait()
			if why := terminated(t, watch); why != actor.TerminatedReason_Stopped {
				t.Errorf("the watcher was told %s", why)
			}
		})
	}
}
