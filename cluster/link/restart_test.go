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

// restarts is how often the peer of TestRestarts comes back. Of remote's own endpoints one in a hundred was stuck for good.
const restarts = 40

// TestRestarts has a peer come and go at one address, in order and by surprise, while others send to it and watch it. Each time
// both must reach each other again.
func TestRestarts(t *testing.T) {
	a := start(t)
	_, known := a.echo(t)
	first := start(t)
	address := first.Address()
	first.link.Stop(context.Background())
	pester(t, a, address)
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
		a.reaches(t, echo)
		p.reaches(t, known)
		if i%3 == 0 { // it is taken for dead first
			a.link.SetMembers([]string{a.Address()})
		}
		var stopping sync.WaitGroup
		stopping.Go(func() { l.Stop(context.Background()) })
		if i%2 == 0 { // its death is told while its streams end
			a.link.SetMembers([]string{a.Address()})
		}
		stopping.Wait()
	}
}

// pester sends to an echo, and watches it, until the test ends.
func pester(t *testing.T, n *node, address string) {
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
