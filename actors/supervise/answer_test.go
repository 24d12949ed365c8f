package supervise_test

import (
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/testkit"
	"troupe/testkit/clock"
)

// TestRequest checks that a request ends with its answer, with a dead letter, by the clock of the
// system's runtime, or when it is cancelled.
func TestRequest(t *testing.T) {
	sys := testkit.System(t)
	now := clock.New()
	supervise.SetRuntime(sys, now)
	asked := make(chan struct{}, 2)
	echo := sys.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch text := ctx.Message().(type) {
		case string:
			if asked <- struct{}{}; text == "answer" {
				ctx.Respond("answered")
			}
		}
	}))
	if got, err := supervise.Request(sys.Root, echo, "answer", time.Minute).Result(); got != "answered" || err != nil {
		t.Errorf("answer %v, %v", got, err)
	}
	late := supervise.Request(sys.Root, echo, "ignore", time.Minute)
	<-asked
	<-asked
	now.Advance(time.Minute)
	if got, err := late.Result(); got != nil || !errors.Is(err, actor.ErrTimeout) {
		t.Errorf("no answer in time: %v, %v", got, err)
	}
	cancelled := supervise.Request(sys.Root, echo, "ignore", time.Minute)
	<-asked
	cancelled.Cancel()
	if got, err := cancelled.Result(); got != nil || !errors.Is(err, actor.ErrTimeout) {
		t.Errorf("a request that was cancelled: %v, %v", got, err)
	}
	none := actor.NewPID(sys.Address(), "none")
	got, err := supervise.Request(sys.Root, none, "answer", time.Minute).Result()
	if !errors.Is(err, actor.ErrDeadLetter) {
		t.Errorf("no actor: %v, %v", got, err)
	}
}

// TestFirstAnswerCounts checks that a second answer that has found the process before the first one
// removed it changes nothing, whether it is an answer or the end of the time.
func TestFirstAnswerCounts(t *testing.T) {
	sys := testkit.System(t)
	now := clock.New()
	supervise.SetRuntime(sys, now)
	silent := sys.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	for _, second := range []any{"second", &actor.DeadLetterResponse{}} {
		answer := supervise.Request(sys.Root, silent, "question", time.Minute)
		process, _ := sys.ProcessRegistry.GetLocal(answer.PID().GetId())
		process.SendUserMessage(answer.PID(), "first")
		process.SendUserMessage(answer.PID(), second)
		now.Advance(time.Minute)
		if got, err := answer.Result(); got != "first" || err != nil {
			t.Errorf("then %T: %v, %v", second, got, err)
		}
		if _, left := sys.ProcessRegistry.GetLocal(answer.PID().GetId()); left {
			t.Error("the process is left")
		}
	}
	late := supervise.Request(sys.Root, silent, "question", time.Minute)
	process, _ := sys.ProcessRegistry.GetLocal(late.PID().GetId())
	now.Advance(time.Minute)
	for range 2 {
		if got, err := late.Result(); got != nil || !errors.Is(err, actor.ErrTimeout) {
			t.Errorf("an answer after the end: %v, %v", got, err)
		}
		process.SendUserMessage(late.PID(), "answer")
	}
}
