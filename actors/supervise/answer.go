package supervise

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Answer is the answer to a request, which may not have arrived yet.
type Answer struct {
	future actor.Future
	timer  Timer
}

// tooLate resolves a future that was not answered in time.
type tooLate struct{}

// Request sends a request to an actor from outside of actors, as root.RequestFuture does, but with
// the clock of the system's runtime.
func Request(root *actor.RootContext, to *actor.PID, message any, within time.Duration) *Answer {
	future := root.RequestFuture(to, message, -1)
	timer := RuntimeOf(root.ActorSystem()).AfterFunc(max(within, 0), func() { root.Send(future.PID(), tooLate{}) })
	return &Answer{future, timer}
}

// PID returns the address to which the answer goes.
func (a *Answer) PID() *actor.PID { return a.future.PID() }

// Result waits for the answer. The error is actor.ErrTimeout if there was none in time, and
// actor.ErrDeadLetter if there is no such actor.
func (a *Answer) Result() (any, error) {
	answer, err := a.future.Result()
	a.timer.Stop()
	if _, ok := answer.(tooLate); ok {
		return nil, actor.ErrTimeout
	}
	return answer, err
}
