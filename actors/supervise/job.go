package supervise

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// PanicError is a panic in a job.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Job runs work in a goroutine under the context life, converts the result to a message with note,
// and sends the message to the actor itself. A panic becomes a *PanicError. The returned channel is
// closed when the work has ended and the message is sent, so that an actor that waits for the work and
// then stops does not race with its message.
//
// The message must carry the actor's incarnation, so that a later incarnation can recognize it as
// stale.
func Job[T any](ctx actor.Context, life context.Context,
	work func(context.Context) (T, error), note func(T, error) any,
) <-chan struct{} {
	root, self := ctx.ActorSystem().Root, ctx.Self()
	done := make(chan struct{})
	RuntimeOf(ctx.ActorSystem()).Go(func() {
		result, err := guarded(life, work)
		root.Send(self, note(result, err))
		close(done)
	})
	return done
}

func guarded[T any](life context.Context, work func(context.Context) (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return work(life)
}

// After sends note to the actor itself after d, unless the timer is stopped before.
func After(ctx actor.Context, d time.Duration, note any) Timer {
	root, self := ctx.ActorSystem().Root, ctx.Self()
	return RuntimeOf(ctx.ActorSystem()).AfterFunc(d, func() { root.Send(self, note) })
}
