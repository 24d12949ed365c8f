package supervise_test

import (
	"context"
	"sync"
	"sync/atomic"
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

// TestOnDone checks that f runs once ctx is done, unless it was stopped before.
func TestOnDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	stop := supervise.System.OnDone(ctx, func() { close(ran) })
	stopped := supervise.System.OnDone(ctx, func() { t.Error("a stopped function ran") })
	if !stopped() || stopped() {
		t.Error("stop of a waiting function must be true once")
	}
	cancel()
	<-ran
	if stop() {
		t.Error("stop of a function that ran is true")
	}
}

// TestGoIn checks that Wait waits for the goroutine.
func TestGoIn(t *testing.T) {
	var running sync.WaitGroup
	var ran atomic.Bool
	supervise.GoIn(supervise.OrSystem(nil), &running, func() { ran.Store(true) })
	if running.Wait(); !ran.Load() {
		t.Error("Wait returned before the function did")
	}
}

// TestSystemAllocatesNoMore checks that System allocates no more than the functions that it stands
// for.
func TestSystemAllocatesNoMore(t *testing.T) {
	rt, ctx := supervise.OrSystem(nil), t.Context()
	var running sync.WaitGroup
	for name, calls := range map[string]struct{ direct, system func() }{
		"Now":   {func() { _ = time.Now() }, func() { _ = rt.Now() }},
		"After": {func() { _ = time.After(time.Hour) }, func() { _ = rt.After(time.Hour) }},
		"AfterFunc": {
			func() { time.AfterFunc(time.Hour, func() {}).Stop() },
			func() { rt.AfterFunc(time.Hour, func() {}).Stop() },
		},
		"WithTimeout": {
			func() { _, cancel := context.WithTimeout(ctx, time.Hour); cancel() },
			func() { _, cancel := rt.WithTimeout(ctx, time.Hour); cancel() },
		},
		"OnDone": {func() { context.AfterFunc(ctx, func() {})() }, func() { rt.OnDone(ctx, func() {})() }},
		"Go": {
			func() { running.Add(1); go running.Done(); running.Wait() },
			func() { running.Add(1); rt.Go(running.Done); running.Wait() },
		},
		"GoIn": {
			func() { running.Go(func() {}); running.Wait() },
			func() { supervise.GoIn(rt, &running, func() {}); running.Wait() },
		},
	} {
		direct, system := testing.AllocsPerRun(1000, calls.direct), testing.AllocsPerRun(1000, calls.system)
		if system > direct {
			t.Errorf("%s: %v allocations, %v without System", name, system, direct)
		}
	}
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
