package kvblock

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// leaseRequest requests blocks from a holder and waits until they are sent.
type leaseRequest struct {
	root    *actor.RootContext
	holder  *actor.PID
	lease   *messages.LeaseBlocks
	timeout time.Duration
}

// run returns the holder's answer, or a refusal if there is none. A holder that times out is asked
// to stop sending.
func (l leaseRequest) run(ctx context.Context) (*messages.LeaseBlocksResult, error) {
	asked := l.root.RequestFuture(l.holder, l.lease, l.timeout)
	stop := context.AfterFunc(ctx, func() {
		l.root.Send(asked.PID(), l.refused(messages.Reason_REASON_CANCELLED, "the remote tier is stopping"))
	})
	defer stop()
	answer, err := asked.Result()
	if errors.Is(err, actor.ErrDeadLetter) {
		return l.refused(messages.Reason_REASON_NODE_LOST, "the holder no longer exists"), nil
	}
	if err != nil {
		l.root.Send(l.holder, &messages.ReleaseBlocks{RequestId: l.lease.GetRequestId()})
		return l.refused(messages.Reason_REASON_DEADLINE, "no answer from the holder within "+l.timeout.String()), nil
	}
	return answer.(*messages.LeaseBlocksResult), nil
}

func (l leaseRequest) refused(reason messages.Reason, detail string) *messages.LeaseBlocksResult {
	return &messages.LeaseBlocksResult{RequestId: l.lease.GetRequestId(), Outcome: &messages.LeaseBlocksResult_Refused{
		Refused: &messages.Refused{Reason: reason, Detail: detail},
	}}
}
