package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/batch"
	"troupe/core/replica"
	"troupe/messages"
)

var reasons = map[replica.Reason]messages.Reason{
	replica.NotReady:         messages.Reason_REASON_NOT_READY,
	replica.IsDraining:       messages.Reason_REASON_DRAINING,
	replica.WeightsDiffer:    messages.Reason_REASON_WEIGHTS_DIFFER,
	replica.EngineFailed:     messages.Reason_REASON_ENGINE_FAILED,
	replica.NotFinite:        messages.Reason_REASON_NUMERIC,
	replica.InvalidArgument:  messages.Reason_REASON_INVALID_ARGUMENT,
	replica.Unsupported:      messages.Reason_REASON_UNSUPPORTED,
	replica.NotFound:         messages.Reason_REASON_NOT_FOUND,
	replica.Conflict:         messages.Reason_REASON_CONFLICT,
	replica.AlreadyExists:    messages.Reason_REASON_ALREADY_EXISTS,
	replica.QueueFull:        messages.Reason_REASON_QUEUE_FULL,
	replica.TooLong:          messages.Reason_REASON_TOO_LONG,
	replica.NoMemory:         messages.Reason_REASON_NO_MEMORY,
	replica.LoadFailed:       messages.Reason_REASON_LOAD_FAILED,
	replica.ReplicaPreempted: messages.Reason_REASON_PREEMPTED,
	replica.IsFaulty:         messages.Reason_REASON_FAULTY,
}

// Refused converts a refusal of a replica; nil stays nil.
func Refused(r *replica.Refusal) *messages.Refused {
	if r == nil {
		return nil
	}
	return Refusal(reasons[r.Reason], r.Detail, r.RetryAfter)
}

// RefusedByBatch converts a refusal of the scheduler; nil stays nil.
func RefusedByBatch(r *batch.Refusal) *messages.Refused {
	if r == nil {
		return nil
	}
	return Refused(replica.FromBatch(r))
}

// Refusal returns a refusal.
func Refusal(reason messages.Reason, detail string, after time.Duration) *messages.Refused {
	return &messages.Refused{Reason: reason, Detail: detail, RetryAfter: durationpb.New(after)}
}
