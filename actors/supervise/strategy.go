package supervise

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cuda"
)

const (
	maxRestarts   = 3
	failureWindow = 30 * time.Second
	firstBackoff  = 50 * time.Millisecond // before the second restart; four times as long before the third
)

// Failure is one crash of an actor.
type Failure struct {
	ID      string // of the actor
	Reason  any    // the panic value
	Message any    // the message being handled
	Time    time.Time
	Stopped bool // the actor was stopped after too many failures
}

// Strategy returns the restart policy. It calls record with every failure; record must not block
// and may be nil. An actor whose device is lost is stopped at once, since a restart would find it
// lost again.
func Strategy(record func(Failure)) actor.SupervisorStrategy {
	if record == nil {
		record = func(Failure) {}
	}
	return &strategy{record: record}
}

type strategy struct{ record func(Failure) }

func (s *strategy) HandleFailure(sys *actor.ActorSystem, parent actor.Supervisor, child *actor.PID,
	stats *actor.RestartStatistics, reason, message any,
) {
	rt := RuntimeOf(sys)
	stats.Fail()
	n := stats.NumberOfFailures(failureWindow)
	f := Failure{ID: child.GetId(), Reason: reason, Message: unwrap(message), Time: rt.Now(),
		Stopped: n > maxRestarts || deviceLost(reason)}
	s.record(f)
	switch {
	case f.Stopped:
		stats.Reset()
		parent.StopChildren(child)
	case n <= 1:
		parent.RestartChildren(child)
	default:
		rt.AfterFunc(Backoff(n), func() { parent.RestartChildren(child) })
	}
}

func deviceLost(reason any) bool {
	err, ok := reason.(error)
	return ok && errors.Is(err, cuda.ErrDeviceLost)
}

// Backoff returns the delay before restart n of an actor, counted from 1.
func Backoff(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	return firstBackoff << (2 * (min(n, 8) - 2))
}

func unwrap(message any) any {
	if env, ok := message.(*actor.MessageEnvelope); ok {
		return env.Message
	}
	return message
}
