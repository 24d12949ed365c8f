package link_test

import (
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cluster/link"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/clock"
)

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
	big := &messages.Refused{Detail: strings.Repeat("x", 1<<20)}
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
