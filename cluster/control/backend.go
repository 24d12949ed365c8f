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
