package supervise_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
)

// fixedTime is a Runtime whose clock stands still.
type fixedTime struct{ supervise.Runtime }

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (fixedTime) Now() time.Time { return epoch }

// TestSetRuntime checks that actors of a system use the runtime that was set for it.
func TestSetRuntime(t *testing.T) {
	sys := actor.NewActorSystem()
	defer sys.Shutdown()
	if got := supervise.RuntimeOf(sys); got != supervise.System {
		t.Errorf("runtime of a new system: %v, want System", got)
	}
	supervise.SetRuntime(sys, fixedTime{supervise.System})
	times := make(chan time.Time, 1)
	pid := sys.Root.Spawn(supervise.Props(func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				times <- supervise.Now(ctx)
			}
		})
	}))
	defer sys.Root.Stop(pid)
	if got := <-times; !got.Equal(epoch) {
		t.Errorf("time of an actor: %v, want %v", got, epoch)
	}
}

// TestSystemRuntime checks the timers of the real runtime.
func TestSystemRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, began := supervise.System, time.Now()
		stopped := rt.AfterFunc(time.Second, func() { t.Error("a stopped timer fired") })
		if !stopped.Stop() {
			t.Error("Stop of a pending timer is false")
		}
		fired := make(chan struct{})
		timer := rt.AfterFunc(2*time.Second, func() { close(fired) })
		<-fired
		if timer.Stop() {
			t.Error("Stop of a fired timer is true")
		}
		<-rt.After(time.Second)
		ctx, cancel := rt.WithTimeout(context.Background(), time.Second)
		defer cancel()
		<-ctx.Done()
		done := make(chan struct{})
		rt.Go(func() { close(done) })
		<-done
		if got := rt.Now().Sub(began); got != 4*time.Second {
			t.Errorf("time passed: %v, want 4s", got)
		}
		if a, b := rt.ID(), rt.ID(); a == b {
			t.Errorf("two ids are %s", a)
		}
	})
}

func BenchmarkNow(b *testing.B) {
	sys := actor.NewActorSystem()
	defer sys.Shutdown()
	supervise.SetRuntime(sys, supervise.System)
	b.ReportAllocs()
	for b.Loop() {
		_ = supervise.RuntimeOf(sys).Now()
	}
}
