package stepper_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/stepper"
	"troupe/actors/supervise"
	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// capturing is an engine whose capture ends as the test says.
type capturing struct {
	idle
	capture func(ctx context.Context) (engine.Graphs, error)
	closed  *atomic.Int64
}

func (c capturing) CaptureGraphs(ctx context.Context) (engine.Graphs, error) { return c.capture(ctx) }

func (c capturing) Close() error {
	c.closed.Add(1)
	return nil
}

// openCapturing starts an engine actor, and returns its EngineReady messages and the number of closed
// engines.
func openCapturing(t *testing.T, capture func(life int64, ctx context.Context) (engine.Graphs, error)) (
	system *actor.ActorSystem, parent *actor.PID, ready chan *messages.EngineReady, closed *atomic.Int64,
) {
	t.Helper()
	var opened atomic.Int64
	ready, closed = make(chan *messages.EngineReady, 3), new(atomic.Int64)
	props := stepper.Props(stepper.Config{Open: func() (engine.Engine, error) {
		life := opened.Add(1)
		return capturing{closed: closed, capture: func(ctx context.Context) (engine.Graphs, error) {
			return capture(life, ctx)
		}}, nil
	}})
	system = testkit.System(t)
	parent = system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch msg := ctx.Message().(type) {
		case *actor.Started:
			ctx.Spawn(props)
		case *messages.EngineReady:
			ready <- msg
		}
	}, actor.WithSupervisor(supervise.Strategy(nil))))
	return system, parent, ready, closed
}

// TestCapture checks that an engine is ready once its graphs are captured, that it goes without them if
// the capture fails, and that it crashes if the device is lost.
func TestCapture(t *testing.T) {
	gate := make(chan error)
	_, _, ready, closed := openCapturing(t, func(life int64, _ context.Context) (engine.Graphs, error) {
		if life == 1 {
			return engine.Graphs{}, fmt.Errorf("capturing: %w", cuda.ErrDeviceLost)
		}
		return engine.Graphs{Count: 10}, <-gate
	})
	select {
	case msg := <-ready:
		t.Fatalf("ready during the capture: %v", msg)
	case gate <- nil:
	}
	msg := <-ready
	if msg.GetIncarnation() != 2 || msg.GetGraphs() != 10 || msg.Capture == nil || closed.Load() != 1 {
		t.Errorf("after a lost device: %v, %d engines closed", msg, closed.Load())
	}
	_, _, ready, _ = openCapturing(t, func(int64, context.Context) (engine.Graphs, error) {
		return engine.Graphs{}, errors.New("no memory for graphs")
	})
	if msg := <-ready; msg.GetCaptureFailure() != "no memory for graphs" || msg.Capture != nil || msg.GetGraphs() != 0 {
		t.Errorf("a failed capture: %v", msg)
	}
}

// TestStopDuringCapture checks that an engine that is stopped cancels its capture, and is closed only
// after it.
func TestStopDuringCapture(t *testing.T) {
	began, cancelled, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
	system, parent, _, closed := openCapturing(t, func(_ int64, ctx context.Context) (engine.Graphs, error) {
		close(began)
		<-ctx.Done()
		close(cancelled)
		<-end
		return engine.Graphs{}, ctx.Err()
	})
	<-began
	stopped := system.Root.StopFuture(parent)
	<-cancelled // a stop that does not wait closes the engine now
	if n := closed.Load(); n != 0 {
		t.Errorf("%d engines closed during the capture", n)
	}
	close(end)
	if err := stopped.Wait(); err != nil || closed.Load() != 1 {
		t.Errorf("%v, %d engines closed", err, closed.Load())
	}
}
