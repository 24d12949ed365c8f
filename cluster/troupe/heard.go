package troupe

import (
	"context"
	"errors"
	"time"

	"troupe/cluster/control"
	"troupe/messages"
)

const (
	// hearWithin is how long a node that has just joined, or joined again, may need to hear of all replicas.
	hearWithin  = time.Second
	lookAgainIn = 20 * time.Millisecond
)

// heard looks for replicas in what this node knows, and again for a while where they or their nodes are not there: commands are answered by any
// node, and the one that does may know less than who gave the command.
func heard[T any](ctx context.Context, look func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, hearWithin)
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
		case <-time.After(lookAgainIn):
		}
	}
}
