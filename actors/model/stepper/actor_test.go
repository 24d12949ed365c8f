package stepper_test

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/stepper"
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
