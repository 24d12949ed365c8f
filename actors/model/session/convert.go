package session

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	core "troupe/core/session"
	"troupe/messages"
)

// reasons maps the reasons that the machine distinguishes. All others become core.Other.
var reasons = map[messages.Reason]core.Reason{
	messages.Reason_REASON_NOT_READY:      core.NotReady,
	messages.Reason_REASON_DRAINING:       core.Draining,
	messages.Reason_REASON_FAULTY:         core.Faulty,
	messages.Reason_REASON_WEIGHTS_DIFFER: core.WeightsDiffer,
	messages.Reason_REASON_ENGINE_FAILED:  core.EngineFailed,
	messages.Reason_REASON_LOAD_FAILED:    core.LoadFailed,
	messages.Reason_REASON_NO_MEMORY:      core.NoMemory,
	messages.Reason_REASON_QUEUE_FULL:     core.QueueFull,
	messages.Reason_REASON_NOT_FOUND:      core.NotFound,
	messages.Reason_REASON_UNSUPPORTED:    core.Unsupported,
	messages.Reason_REASON_NUMERIC:        core.Numeric,
	messages.Reason_REASON_DEADLINE:       core.DeadlinePassed,
	messages.Reason_REASON_PREEMPTED:      core.Preempted,
}

// wireReason returns the reason for a refusal that the machine itself makes.
func wireReason(r core.Reason) messages.Reason {
	for wire, reason := range reasons {
		if reason == r {
			return wire
		}
	}
	panic(fmt.Sprintf("session: reason %s has no message", r))
}

func machineConfig(s *messages.SequenceSpec) core.Config {
	cfg := core.Config{Adapter: s.GetAdapter() != ""}
	if d := s.GetDeadline(); d != nil {
		cfg.Deadline = d.AsTime()
	}
	return cfg
}

func refusalOf(r *messages.Refused) core.Refusal {
	return core.Refusal{
		Reason: reasons[r.GetReason()], Detail: r.GetDetail(), RetryAfter: r.GetRetryAfter().AsDuration(),
	}
}

func replicaOf(name string, ref *messages.ActorRef, incarnation uint64) core.Replica {
	return core.Replica{
		Name: name, Actor: core.Actor{Address: ref.GetAddress(), ID: ref.GetId()}, Incarnation: incarnation,
	}
}

func tokensOf(from *actor.PID, msg *messages.TokensEmitted) core.Tokens {
	return core.Tokens{
		From: actorOf(from), First: int(msg.GetFirstIndex()), Count: len(msg.GetTokens()),
		Finished: msg.GetFinish() != messages.FinishReason_FINISH_REASON_UNSPECIFIED,
		Revision: msg.GetRevision(),
	}
}

// actorOf returns the address of an actor; nil is unknown.
func actorOf(pid *actor.PID) core.Actor {
	return core.Actor{Address: pid.GetAddress(), ID: pid.GetId()}
}

func pidOf(a core.Actor) *actor.PID { return actor.NewPID(a.Address, a.ID) }
