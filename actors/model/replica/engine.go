package replica

import (
	"context"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/sample"
	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
)

// EngineConfig is fixed for the life of the engine actor and shared by its restarts.
type EngineConfig struct {
	// Open returns an engine over the replica's weights and KV memory.
	Open func() (engine.Engine, error)
	// Adapter returns one that is on the device, by key; nil: there are none.
	Adapter func(key string) (*engine.Adapter, error)
	// Gate returns one that a step has to pass, by number; nil: there are none.
	Gate func(number uint64) (engine.Gate, error)
	// GPU is told when the device is lost.
	GPU   *actor.PID
	Lease string
}

// EngineProps returns the recipe for an engine actor.
func EngineProps(cfg EngineConfig) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &stepper{EngineConfig: cfg, incarnation: incarnation}
	})
}

type stepper struct {
	EngineConfig
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	end         context.CancelFunc

	engine  engine.Engine
	running <-chan struct{} // closed when the step in flight has ended; nil before the first
}

// stepped is a note to self.
type stepped struct {
	incarnation uint64
	step        uint64
	batch       []engine.Sequence
	tokens      []sample.Token
	err         error
	replyTo     *actor.PID
}

func (e *stepper) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		e.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		e.onEnding()
	case *messages.RunStep:
		e.onRun(ctx, msg)
	case *stepped:
		e.onStepped(ctx, msg)
	}
}

func (e *stepper) onStarted(ctx actor.Context) {
	e.life, e.end = context.WithCancel(context.Background())
	opened, err := e.Open()
	if err != nil {
		e.fail(ctx, err)
	}
	e.engine = opened
	ctx.Send(ctx.Parent(), &messages.EngineReady{Incarnation: e.incarnation})
}

// onEnding blocks until the step in flight has ended: the next engine writes to the same memory.
func (e *stepper) onEnding() {
	e.end()
	if e.running != nil {
		<-e.running
	}
	if e.engine != nil {
		_ = e.engine.Close() // what it held is lost either way; weights and KV memory are not its own
	}
}

func (e *stepper) onRun(ctx actor.Context, msg *messages.RunStep) {
	batch, err := batchOf(msg, e.Adapter, e.Gate)
	if err != nil {
		panic(err)
	}
	eng := e.engine
	note := stepped{incarnation: e.incarnation, step: msg.GetStep(), batch: batch, replyTo: ctx.Sender()}
	e.running = supervise.Job(ctx, e.life,
		func(life context.Context) ([]sample.Token, error) { return eng.Step(life, batch) },
		func(tokens []sample.Token, err error) any {
			note.tokens, note.err = tokens, err
			return &note
		})
}

func (e *stepper) onStepped(ctx actor.Context, msg *stepped) {
	if msg.incarnation != e.incarnation {
		return
	}
	result := &messages.RunStepResult{Step: msg.step, Incarnation: e.incarnation}
	var void *engine.StepAborted
	switch {
	case errors.As(msg.err, &void):
		result.Outcome = &messages.RunStepResult_Void{Void: &messages.StepVoid{Sequence: uint32(void.Sequence), Detail: void.Err.Error()}}
	case msg.err != nil:
		e.fail(ctx, msg.err) // the replica runs the step again on the next incarnation
	default:
		result.Outcome = &messages.RunStepResult_Done{Done: &messages.StepDone{Tokens: sampledOf(msg.batch, msg.tokens)}}
	}
	ctx.Send(msg.replyTo, result)
}

// fail crashes the engine. That its device is lost concerns more than this replica: the gpu actor hears of it first, so that it refuses
// whoever asks from now on.
func (e *stepper) fail(ctx actor.Context, err error) {
	if errors.Is(err, cuda.ErrDeviceLost) {
		ctx.Send(e.GPU, &messages.DeviceFailed{Lease: e.Lease, Detail: err.Error()})
	}
	panic(err)
}
