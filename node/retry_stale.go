package node

import (
	"context"
	"errors"
	"time"

	"troupe/control"
	"troupe/messages"
)

const (
	// retryStaleFor is how long word of a replica may need from one node to another: three turns of their routers.
	retryStaleFor   = 300 * time.Millisecond
	retryStaleEvery = 20 * time.Millisecond
)

// heard looks for replicas or nodes in what this node knows, and again for a while where they are not there: commands are answered by any
// node, and whoever gives one may have it from another node's answer, which is ahead of this one by a moment.
func retryStale[T any](ctx context.Context, look func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, retryStaleFor)
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
		case <-time.After(retryStaleEvery):
		}
	}
}
