package link_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cluster/link"
	"troupe/messages"
	"troupe/testkit"
)

// restarts is the number of restarts of the peer in TestPeerRestarts. The endpoints of protoactor's
// remote package got stuck in about one restart in a hundred.
const restarts = 40

// TestPeerRestarts restarts a peer at the same address while others send to it and watch it. In
// some rounds the others remove the peer from the members before or while it stops. After each
// restart both sides must reach each other again.
func TestPeerRestarts(t *testing.T) {
	a := start(t)
	_, known := a.echo(t)
	first := start(t)
	address := first.Address()
	first.link.Stop(context.Background())
	sendForever(t, a, address)
	for i := range restarts {
		sys := testkit.System(t)
		cfg := config(sys)
		cfg.Listen = address
		l, err := link.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		p := &node{ActorSystem: sys, link: l}
		_, echo := p.echo(t)
		join(a, p)
		a.waitReachable(t, echo)
		p.waitReachable(t, known)
		if i%3 == 0 { // others consider it dead first
			a.link.SetMembers([]string{a.Address()})
		}
		var stopping sync.WaitGroup
		stopping.Go(func() { l.Stop(context.Background()) })
		if i%2 == 0 { // it is removed while its streams end
			a.link.SetMembers([]string{a.Address()})
		}
		stopping.Wait()
	}
}

// sendForever sends to an echo and watches it until the test ends. Its pace is in real time, like the
// sockets; no outcome depends on it.
func sendForever(t *testing.T, n *node, address string) {
	ctx, cancel := context.WithCancel(context.Background())
	var busy sync.WaitGroup
	t.Cleanup(busy.Wait)
	t.Cleanup(cancel)
	forever := func(every time.Duration, do func(echo *actor.PID)) {
		busy.Go(func() {
			for tick := time.NewTicker(every); ctx.Err() == nil; <-tick.C {
				do(actor.NewPID(address, "echo"))
			}
		})
	}
	for range 4 {
		forever(200*time.Microsecond, func(echo *actor.PID) {
			n.Root.RequestWithCustomSender(echo, &messages.GetSequence{RequestId: "r"}, n.pid("echo"))
		})
	}
	forever(time.Millisecond, func(echo *actor.PID) {
		watcher := n.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				ctx.Watch(echo)
			}
		}))
		n.Root.Stop(watcher)
	})
}
