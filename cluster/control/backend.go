package control

import (
	"context"
	"errors"

	"troupe/messages"
)

// Backend answers for the node. Its errors are Refusals where the reason is known.
type Backend interface {
	// Inspect reads a model's headers and says what is wrong with them.
	Inspect(path string) error
	PutDeployment(ctx context.Context, spec *messages.DeploymentSpec, ifRevision uint64) (revision uint64, err error)
	DeleteDeployment(ctx context.Context, name string) error
	Deployments(ctx context.Context) ([]*messages.DeploymentStatus, error)
	Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error)
	Gpus(ctx context.Context) ([]*messages.GpuStatus, error)
	RestartReplica(ctx context.Context, name string) error
	Tree() []*messages.ActorNode
}

// Refusal is an error with a reason.
type Refusal struct{ *messages.Refused }

func (r Refusal) Error() string { return r.GetDetail() }

// Refuse returns an error with a reason.
func Refuse(reason messages.Reason, detail string) error {
	return Refusal{&messages.Refused{Reason: reason, Detail: detail}}
}

// reasonOf returns the reason of an error.
func reasonOf(err error) messages.Reason {
	var r Refusal
	switch {
	case errors.As(err, &r):
		return r.GetReason()
	case errors.Is(err, context.DeadlineExceeded):
		return messages.Reason_REASON_DEADLINE
	}
	return messages.Reason_REASON_INTERNAL
}

// Code is the HTTP status that fits a reason; NATS errors carry it too.
func Code(reason messages.Reason) int {
	switch reason {
	case messages.Reason_REASON_INVALID_ARGUMENT, messages.Reason_REASON_TOO_LONG, messages.Reason_REASON_UNSUPPORTED:
		return 400
	case messages.Reason_REASON_NOT_FOUND:
		return 404
	case messages.Reason_REASON_ALREADY_EXISTS, messages.Reason_REASON_CONFLICT:
		return 409
	case messages.Reason_REASON_QUEUE_FULL:
		return 429
	case messages.Reason_REASON_CANCELLED:
		return 499
	case messages.Reason_REASON_NO_MEMORY, messages.Reason_REASON_NOT_READY, messages.Reason_REASON_DRAINING, messages.Reason_REASON_LOAD_FAILED:
		return 503
	case messages.Reason_REASON_DEADLINE:
		return 504
	}
	return 500
}
