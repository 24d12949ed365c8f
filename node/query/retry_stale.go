package query

import (
	"context"
	"errors"
	"time"

	"troupe/actors/supervise"
	"troupe/control"
	"troupe/messages"
)

const (
	// retryStaleFor is the maximum time for news of a replica to travel from one node to another:
	// three rounds of announcements.
	retryStaleFor   = 300 * time.Millisecond
	retryStaleEvery = 20 * time.Millisecond
)

// RetryStale calls look until it finds the replica or node that a command names, or for
// retryStaleFor. The client may know the name from another node, and this node may learn of it a
// moment later.
func RetryStale[T any](ctx context.Context, rt supervise.Runtime, look func() (T, error)) (T, error) {
	ctx, cancel := rt.WithTimeout(ctx, retryStaleFor)
	defer cancel()
	for {
		found, err := look()
		var refused control.Refusal
		if err == nil || !errors.As(err, &refused) {
			return found, err
		}
		switch refused.GetReason() {
		case messages.Reason_REASON_NOT_FOUND, messages.Reason_REASON_NOT_READY, messages.Reason_REASON_NODE_LOST:
		default:
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, err
		case <-rt.After(retryStaleEvery):
		}
	}
}
