package supervise

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/restart"
	"troupe/cuda"
)

// Failure is one crash of an actor.
type Failure struct {
	ID      string // of the actor
	Reason  any    // the panic value
	Message any    // the message being handled
	Time    time.Time
	Stopped bool // the actor was stopped after too many failures
}

// Strategy returns the restart policy of core/restart. It calls record with every failure; record
// must not block and may be nil. An actor whose device is lost is stopped at once, since a restart
// would find it lost again.
func Strategy(record func(Failure)) actor.SupervisorStrategy {
	if record == nil {
		record = func(Failure) {}
	}
	return &strategy{record: record, histories: make(map[*actor.RestartStatistics]*restart.History)}
}

// strategy keeps the failures of actors itself, by the clock of the system's Runtime. protoactor's
// RestartStatistics, which count by the clock of the machine, only identify an actor from its spawn
// to its stop.
type strategy struct {
	record func(Failure)

	mu        sync.Mutex
	histories map[*actor.RestartStatistics]*restart.History // of actors that failed lately
}

func (s *strategy) HandleFailure(sys *actor.ActorSystem, parent actor.Supervisor, child *actor.PID,
	stats *actor.RestartStatistics, reason, message any,
) {
	rt := RuntimeOf(sys)
	now := rt.Now()
	d := s.decide(stats, now, deviceLost(reason))
	s.record(Failure{ID: child.GetId(), Reason: reason, Message: unwrap(message), Time: now,
		Stopped: d.Action == restart.Stop})
	switch {
	case d.Action == restart.Stop:
		parent.StopChildren(child)
	case d.Delay == 0:
		parent.RestartChildren(child)
	default:
		rt.AfterFunc(d.Delay, func() { parent.RestartChildren(child) })
	}
}

// decide records a failure of an actor and forgets the actors whose failures no longer count.
func (s *strategy) decide(who *actor.RestartStatistics, now time.Time, permanent bool) restart.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.histories[who]
	if h == nil {
		h = &restart.History{}
		s.histories[who] = h
	}
	d := h.Fail(now, permanent)
	maps.DeleteFunc(s.histories, func(_ *actor.RestartStatistics, h *restart.History) bool { return h.Empty(now) })
	return d
}

func deviceLost(reason any) bool {
	err, ok := reason.(error)
	return ok && errors.Is(err, cuda.ErrDeviceLost)
}

func unwrap(message any) any {
	if env, ok := message.(*actor.MessageEnvelope); ok {
		return env.Message
	}
	return message
}
