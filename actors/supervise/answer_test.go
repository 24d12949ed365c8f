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

// TestRequest checks that a request ends with its answer, with a dead letter, or by the clock of
// the system's runtime.
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
	none := actor.NewPID(sys.Address(), "none")
	got, err := supervise.Request(sys.Root, none, "answer", time.Minute).Result()
	if !errors.Is(err, actor.ErrDeadLetter) {
		t.Errorf("no actor: %v, %v", got, err)
	}
}
