package dst_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/testkit"
	"troupe/testkit/dst"
)

type (
	ball struct{ n int }
	note struct{ n int }
)

// player returns the ball after a job and a timer.
type player struct{ seen int }

func (p *player) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *ball:
		p.seen++
		if msg.n == 0 {
			return
		}
		from := ctx.Sender()
		supervise.Job(ctx, context.Background(), func(context.Context) (int, error) {
			<-supervise.RuntimeOf(ctx.ActorSystem()).After(time.Second)
			return msg.n, nil
		}, func(n int, _ error) any { return &note{n} })
		ctx.Request(from, &ball{msg.n - 1})
	case *note:
		if msg.n%7 == 3 {
			panic("three")
		}
	}
}

func play(t *testing.T, seed uint64, players, rounds int) (trace string) {
	synctest.Test(t, func(t *testing.T) {
		w := dst.NewWorld(seed)
		sys := testkit.System(t)
		supervise.SetRuntime(sys, w.Runtime("a"))
		var all []*actor.PID
		for range players {
			all = append(all, sys.Root.Spawn(supervise.Props(func() actor.Actor { return &player{} },
				actor.WithDispatcher(w.Dispatcher("a")))))
		}
		for i, p := range all {
			sys.Root.RequestWithCustomSender(p, &ball{rounds}, all[(i+1)%len(all)])
		}
		w.Run(time.Hour, func() bool { return false })
		trace = w.Trace()
	})
	return trace
}

// TestSameSeedSameTrace checks that a run depends only on its seed.
func TestSameSeedSameTrace(t *testing.T) {
	first := play(t, 1, 10, 100)
	for range 5 {
		if again := play(t, 1, 10, 100); again != first {
			t.Errorf("trace of seed 1: %s, then %s", first, again)
		}
	}
	if other := play(t, 2, 10, 100); other == first {
		t.Errorf("seeds 1 and 2 have the same trace")
	}
}
