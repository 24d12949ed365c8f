package stepper

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/sample"
	"troupe/core/utilization"
	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
)

// Config configures an engine actor. It is fixed for the life of the actor and shared by its
// restarts.
type Config struct {
	// Open returns an engine that uses the replica's weights and KV memory.
	Open func() (engine.Engine, error)
	// Adapter returns the adapter on the device with the given key. A nil Adapter means that there
	// are no adapters.
	Adapter func(key string) (*engine.Adapter, error)
	// Gate returns the gate with the given number, which a step must pass. A nil Gate means that
	// there are no gates.
	Gate func(number uint64) (engine.Gate, error)
	// GPU receives DeviceFailed.
	GPU   *actor.PID
	Lease string
	Peaks utilization.Peaks // of the device
}

// Props returns the props of an engine actor.
func Props(cfg Config) *actor.Props {
	var incarnation, begun uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &engineActor{Config: cfg, incarnation: incarnation, begun: &begun}
	})
}

type engineActor struct {
	Config
	incarnation uint64
	begun       *uint64         // last step that began since the last EngineReady; shared by all incarnations
	life        context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	engine  engine.Engine
	running <-chan struct{} // closed when the capture, or the step in flight, ends; nil before
}

// captured is a message to self.
type captured struct {
	incarnation uint64
	began       time.Time
	graphs      engine.Graphs
	err         error
}

// stepDone is a message to self.
type stepDone struct {
	incarnation uint64
	step        uint64
	batch       []engine.Sequence
	tokens      []sample.Token
	err         error
	replyTo     *actor.PID
}

func (e *engineActor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		e.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		e.onStop()
	case *messages.RunStep:
		e.onRun(ctx, msg)
	case *captured:
		e.onCaptured(ctx, msg)
	case *stepDone:
		e.onStepDone(ctx, msg)
	default:
		supervise.Unknown(ctx, "engine")
	}
}

func (e *engineActor) onStarted(ctx actor.Context) {
	e.life, e.cancel = context.WithCancel(context.Background())
	opened, err := e.Open()
	if err != nil {
		e.fail(ctx, err)
	}
	e.engine = opened
	note := captured{incarnation: e.incarnation, began: supervise.Now(ctx)}
	e.running = supervise.Job(ctx, e.life,
		func(life context.Context) (engine.Graphs, error) { return engine.CaptureGraphs(life, opened) },
		func(graphs engine.Graphs, err error) any {
			note.graphs, note.err = graphs, err
			return &note
		})
}

// onCaptured reports that the engine is ready, with its graphs or without.
func (e *engineActor) onCaptured(ctx actor.Context, msg *captured) {
	if msg.incarnation != e.incarnation {
		return
	}
	ready := &messages.EngineReady{Incarnation: e.incarnation, CrashedStep: *e.begun,
		Graphs: uint32(msg.graphs.Count)}
	switch {
	case errors.Is(msg.err, cuda.ErrDeviceLost):
		e.fail(ctx, msg.err)
	case msg.err != nil:
		ready.CaptureFailure = msg.err.Error()
	case msg.graphs.Count > 0:
		ready.Capture = durationpb.New(supervise.Now(ctx).Sub(msg.began))
	}
	ctx.Send(ctx.Parent(), ready)
	*e.begun = 0
}

// onStop blocks until the capture or the step in flight has ended, because the next engine writes to the same
// memory.
func (e *engineActor) onStop() {
	e.cancel()
	if e.running != nil {
		<-e.running
	}
	if e.engine != nil {
		_ = e.engine.Close() // the engine keeps no state between steps, and does not own the weights and the KV memory
	}
}

// onRun starts a step. A command to an earlier incarnation, which crashed before it handled the
// command, is ignored: its blocks may belong to other sequences by now.
func (e *engineActor) onRun(ctx actor.Context, msg *messages.RunStep) {
	if msg.GetIncarnation() != e.incarnation {
		return
	}
	*e.begun = msg.GetStep()
	batch, err := engineBatch(msg, e.Adapter, e.Gate)
	if err != nil {
		panic(err)
	}
	eng := e.engine
	note := stepDone{incarnation: e.incarnation, step: msg.GetStep(), batch: batch, replyTo: ctx.Sender()}
	e.running = supervise.Job(ctx, e.life,
		func(life context.Context) ([]sample.Token, error) { return eng.Step(life, batch) },
		func(tokens []sample.Token, err error) any {
			note.tokens, note.err = tokens, err
			return &note
		})
}

func (e *engineActor) onStepDone(ctx actor.Context, msg *stepDone) {
	if msg.incarnation != e.incarnation {
		return
	}
	result := &messages.RunStepResult{Step: msg.step, Incarnation: e.incarnation}
	var aborted *engine.StepAborted
	switch {
	case errors.As(msg.err, &aborted):
		result.Outcome = &messages.RunStepResult_Aborted{Aborted: &messages.StepAborted{
			Sequence: uint32(aborted.Sequence), Detail: aborted.Err.Error(),
		}}
	case msg.err != nil:
		e.fail(ctx, msg.err) // the replica runs the step again on the next incarnation
	default:
		done := &messages.StepDone{Tokens: sampledOf(msg.batch, msg.tokens)}
		e.countWork(done, msg.batch)
		result.Outcome = &messages.RunStepResult_Done{Done: done}
	}
	ctx.Send(msg.replyTo, result)
}

// countWork adds the work of a step to its result.
func (e *engineActor) countWork(to *messages.StepDone, batch []engine.Sequence) {
	work := engine.WorkOf(e.engine, batch)
	least, _ := e.Peaks.Least(work)
	to.Flops, to.Bytes, to.LeastNanoseconds = work.FLOPs, work.Bytes, uint64(least)
}

// fail crashes the engine. If the device is lost, it first notifies the GPU actor, because other
// replicas are affected too.
func (e *engineActor) fail(ctx actor.Context, err error) {
	if errors.Is(err, cuda.ErrDeviceLost) {
		ctx.Send(e.GPU, &messages.DeviceFailed{Lease: e.Lease, Detail: err.Error()})
	}
	panic(err)
}
