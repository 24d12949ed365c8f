package supervise

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Answer is the answer to a request, which may not have arrived yet. What arrives first counts: the
// answer, a dead letter or the end of the time. A future of protoactor would be written by two of
// them at once.
type Answer struct {
	sys     *actor.ActorSystem
	pid     *actor.PID
	timer   Timer
	first   sync.Once
	arrived chan struct{} // closed when value and err are set
	value   any
	err     error
}

// Request sends a request to an actor from outside of actors, as root.RequestFuture does, but with
// the clock of the system's runtime.
func Request(root *actor.RootContext, to *actor.PID, message any, within time.Duration) *Answer {
	a := &Answer{sys: root.ActorSystem(), arrived: make(chan struct{})}
	// An ID of the registry is free, so Add succeeds. Links recognize futures by the prefix.
	a.pid, _ = a.sys.ProcessRegistry.Add(answerProcess{a}, "future"+a.sys.ProcessRegistry.NextID())
	root.RequestWithCustomSender(to, message, a.pid)
	a.timer = RuntimeOf(a.sys).AfterFunc(max(within, 0), func() { a.settle(nil, actor.ErrTimeout) })
	return a
}

// PID returns the address to which the answer goes.
func (a *Answer) PID() *actor.PID { return a.pid }

// Cancel ends the wait for the answer, as if the time were over.
func (a *Answer) Cancel() { a.settle(nil, actor.ErrTimeout) }

// Result waits for the answer. The error is actor.ErrTimeout if there was none in time, and
// actor.ErrDeadLetter if there is no such actor.
func (a *Answer) Result() (any, error) {
	<-a.arrived
	a.timer.Stop()
	return a.value, a.err
}

// settle sets the result, unless it is set already.
func (a *Answer) settle(value any, err error) {
	a.first.Do(func() {
		a.value, a.err = value, err
		a.sys.ProcessRegistry.Remove(a.pid)
		close(a.arrived)
	})
}

// answerProcess receives the answer.
type answerProcess struct{ answer *Answer }

func (p answerProcess) SendUserMessage(_ *actor.PID, message any) {
	_, value, _ := actor.UnwrapEnvelope(message)
	if _, none := value.(*actor.DeadLetterResponse); none {
		p.answer.settle(nil, actor.ErrDeadLetter)
		return
	}
	p.answer.settle(value, nil)
}

func (p answerProcess) SendSystemMessage(_ *actor.PID, message any) { p.answer.settle(message, nil) }

func (p answerProcess) Stop(*actor.PID) { p.answer.settle(nil, actor.ErrDeadLetter) }
