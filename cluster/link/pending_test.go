package link

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/messages"
	"troupe/testkit"
)

// TestPendingSweep checks that an answered future is removed at once, and that a sweep removes
// those that timed out.
func TestPendingSweep(t *testing.T) {
	sys := testkit.System(t)
	p := newPending(sys)
	live := actor.NewFuture(sys, time.Hour)
	t.Cleanup(func() { sys.Root.Send(live.PID(), &messages.SequenceStatus{}) })
	target := actor.NewPID("127.0.0.1:1", "x")
	p.add(live.PID().Id, target)
	for i := range 10 * sweepMin {
		p.add(fmt.Sprintf("%sended-%d", futurePrefix, i), target)
		if len(p.asked) > sweepMin {
			t.Fatalf("%d futures are kept, but one is alive", len(p.asked))
		}
	}
	if all := p.takeAll(target.Address); all[live.PID().Id] == nil {
		t.Error("the live future was swept out")
	}
	if p.take(live.PID().Id) || len(p.asked) != 0 {
		t.Error("a future can be taken twice")
	}
}

func TestAnsweredFutureIsRemoved(t *testing.T) {
	var links [2]*Link
	for i := range links {
		l, err := Start(
			context.Background(),
			Config{
				System:   testkit.System(t),
				Listen:   "127.0.0.1:0",
				Provider: stubProvider{},
				Lookup:   stubLookup{},
				Log:      zerolog.Nop(),
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Stop(context.Background()) })
		links[i] = l
	}
	a, b := links[0], links[1]
	a.SetMembers([]string{b.cfg.System.Address()})
	future := a.cfg.System.Root.RequestFuture(
		actor.NewPID(b.cfg.System.Address(), "unknown"),
		&messages.GetSequence{},
		time.Hour,
	)
	if _, err := future.Result(); err == nil {
		t.Fatal("a request to an unknown actor was answered")
	}
	if a.pending.take(future.PID().Id) {
		t.Error("an answered future counts as waiting")
	}
}
