package stepper_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/stepper"
	"troupe/actors/supervise"
	"troupe/core/sample"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// idle is an engine whose steps compute nothing.
type idle struct{ engine.Engine }

func (idle) Step(context.Context, []engine.Sequence) ([]sample.Token, error) { return nil, nil }
func (idle) Close() error                                                    { return nil }

// TestStaleStep checks that an engine ignores a step that was sent to another incarnation.
func TestStaleStep(t *testing.T) {
	results := make(chan uint64, 2)
	var child *actor.PID
	props := stepper.Props(stepper.Config{
		Open: func() (engine.Engine, error) { return idle{}, nil },
		Gate: func(number uint64) (engine.Gate, error) {
			t.Errorf("the gate %d of a stale step is looked up", number)
			return nil, nil
		},
	})
	parent := actor.PropsFromFunc(func(ctx actor.Context) {
		switch msg := ctx.Message().(type) {
		case *actor.Started:
			child = ctx.Spawn(props)
		case *messages.EngineReady:
			ctx.Request(child, &messages.RunStep{Step: 1, Incarnation: msg.GetIncarnation() + 1,
				Sequences: []*messages.StepSequence{{Gate: 7}}})
			ctx.Request(child, &messages.RunStep{Step: 2, Incarnation: msg.GetIncarnation()})
		case *messages.RunStepResult:
			results <- msg.GetStep()
		}
	})
	testkit.System(t).Root.Spawn(parent)
	if step := <-results; step != 2 {
		t.Errorf("step %d ran, want 2", step)
	}
}

// failing is an engine whose steps fail.
type failing struct{ idle }

func (failing) Step(context.Context, []engine.Sequence) ([]sample.Token, error) {
	return nil, errors.New("the test fails the step")
}

// TestCrashedStep checks that an engine that has crashed names the step that it had begun, and none if
// it crashed before.
func TestCrashedStep(t *testing.T) {
	const steps = 3
	ready := make(chan uint64, steps)
	crash := &testkit.Crash{On: "*messages.RunStep", After: 1, Times: 1} // before the second step begins
	props := stepper.Props(stepper.Config{Open: func() (engine.Engine, error) { return failing{}, nil }}).
		Configure(actor.WithReceiverMiddleware(crash.Middleware))
	var child *actor.PID
	parent := actor.PropsFromFunc(func(ctx actor.Context) {
		switch msg := ctx.Message().(type) {
		case *actor.Started:
			child = ctx.Spawn(props)
		case *messages.EngineReady:
			if life := msg.GetIncarnation(); life <= steps {
				ctx.Request(child, &messages.RunStep{Step: 10 * life, Incarnation: life})
			}
			ready <- msg.GetCrashedStep()
		}
	}, actor.WithSupervisor(supervise.Strategy(nil)))
	testkit.System(t).Root.Spawn(parent)
	var crashed []uint64
	for range steps + 1 {
		crashed = append(crashed, <-ready)
	}
	if want := []uint64{0, 10, 0, 30}; !slices.Equal(crashed, want) {
		t.Errorf("crashed steps %v, want %v", crashed, want)
	}
}
