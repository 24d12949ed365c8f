package supervise_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/testkit"
)

type crash struct{}

// ends is the message with a job's result.
type ends struct {
	value int
	err   error
}

// TestStrategyStopsAfterThreeRestarts checks that an actor is restarted with growing delays, that
// its fourth failure within 30 s stops it, and that the group starts it again after the cooldown.
func TestStrategyStopsAfterThreeRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := testkit.System(t)
		var mu sync.Mutex
		var failures []supervise.Failure
		starts := 0
		child := actor.PropsFromFunc(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				mu.Lock()
				starts++
				mu.Unlock()
			case *crash:
				panic("told to")
			}
		})
		strategy := supervise.Strategy(func(f supervise.Failure) {
			mu.Lock()
			failures = append(failures,
				f)
			mu.Unlock()
		})
		group := sys.Root.Spawn(supervise.Group(supervise.GroupConfig{
			Children: []supervise.Child{{Name: "child", Props: child}}, Strategy: strategy, Log: zerolog.Nop(),
		}))
		defer func() { _ = sys.Root.StopFuture(group).Wait() }()
		synctest.Wait()
		pid := actor.NewPID(group.GetAddress(), group.GetId()+"/child")
		for range 4 {
			sys.Root.Send(pid, &crash{})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		mu.Lock()
		if starts != 4 || len(failures) != 4 || failures[2].Stopped || !failures[3].Stopped ||
			failures[0].ID != pid.GetId() || failures[0].Reason != "told to" {
			t.Errorf("%d starts, failures %+v", starts, failures)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if starts != 5 {
			t.Errorf("%d starts after the cooldown", starts)
		}
	})
}

// leapingTime is a Runtime whose clock advances by a minute with each reading.
type leapingTime struct {
	supervise.Runtime
	minutes atomic.Int64
}

func (r *leapingTime) Now() time.Time {
	return epoch.Add(time.Duration(r.minutes.Add(1)) * time.Minute)
}

// TestStrategyUsesRuntime checks that failures are counted by the clock of the Runtime: an actor
// that fails once a minute is always restarted at once, however fast the minutes pass.
func TestStrategyUsesRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := testkit.System(t)
		supervise.SetRuntime(sys, &leapingTime{Runtime: supervise.System})
		starts := 0
		child := actor.PropsFromFunc(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				starts++
			case *crash:
				panic("told to")
			}
		})
		stopped := false
		group := sys.Root.Spawn(supervise.Group(supervise.GroupConfig{
			Children: []supervise.Child{{Name: "child", Props: child}}, Log: zerolog.Nop(),
			Strategy: supervise.Strategy(func(f supervise.Failure) { stopped = stopped || f.Stopped }),
		}))
		defer func() { _ = sys.Root.StopFuture(group).Wait() }()
		synctest.Wait()
		for range 10 {
			sys.Root.Send(actor.NewPID(group.GetAddress(), group.GetId()+"/child"), &crash{})
			synctest.Wait()
		}
		if starts != 11 || stopped {
			t.Errorf("%d starts after 10 failures, a minute apart; stopped: %v", starts, stopped)
		}
	})
}

// TestJob checks that a result arrives as a message and a panic as an error, and that the job's
// context ends with the actor.
func TestJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := testkit.System(t)
		for name, tc := range map[string]struct {
			work func(context.Context) (int, error)
			ok   func(ends) bool
		}{
			"result": {func(context.Context) (int, error) { return 7, nil },
				func(e ends) bool { return e.value == 7 && e.err == nil }},
			"error": {func(context.Context) (int, error) { return 0, context.Canceled },
				func(e ends) bool { return errors.Is(e.err, context.Canceled) }},
			"panic": {func(context.Context) (int, error) { panic("boom") }, func(e ends) bool {
				p := (*supervise.PanicError)(nil)
				return errors.As(e.err, &p) && p.Value == "boom" && len(p.Stack) > 0
			}},
		} {
			got := make(chan ends, 1)
			pid := sys.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
				switch m := ctx.Message().(type) {
				case *actor.Started:
					supervise.Job(ctx, context.Background(), tc.work,
						func(v int, err error) any { return &ends{v, err} })
				case *ends:
					got <- *m
				}
			}))
			if e := <-got; !tc.ok(e) {
				t.Errorf("%s: %+v", name, e)
			}
			_ = sys.Root.StopFuture(pid).Wait()
		}
	})
}
