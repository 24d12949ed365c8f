package stepper_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/stepper"
	"troupe/core/utilization"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// counting is an engine that counts its work.
type counting struct{ idle }

func (counting) Work(batch []engine.Sequence) utilization.Work {
	return utilization.Work{FLOPs: 2000, Bytes: float64(len(batch))}
}

// TestWork checks that a step's result has its work and the least time for it, or nothing if the engine does not count.
func TestWork(t *testing.T) {
	for name, c := range map[string]struct {
		engine engine.Engine
		want   *messages.StepDone
	}{
		"counted":     {counting{}, &messages.StepDone{Flops: 2000, Bytes: 3, LeastNanoseconds: 2e9}},
		"not counted": {idle{}, &messages.StepDone{}},
	} {
		results, child := make(chan *messages.StepDone, 1), (*actor.PID)(nil)
		props := stepper.Props(stepper.Config{
			Open:  func() (engine.Engine, error) { return c.engine, nil },
			Peaks: utilization.Peaks{FLOPs: 1000, Bytes: 1000},
		})
		testkit.System(t).Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			switch msg := ctx.Message().(type) {
			case *actor.Started:
				child = ctx.Spawn(props)
			case *messages.EngineReady:
				ctx.Request(child, &messages.RunStep{Step: 1, Incarnation: msg.GetIncarnation(),
					Sequences: make([]*messages.StepSequence, 3)})
			case *messages.RunStepResult:
				results <- msg.GetDone()
			}
		}))
		got := <-results
		if got.GetFlops() != c.want.GetFlops() || got.GetBytes() != c.want.GetBytes() ||
			got.GetLeastNanoseconds() != c.want.GetLeastNanoseconds() {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
