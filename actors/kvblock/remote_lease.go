package kvblock

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// leasing asks a holder for blocks, and waits until it has sent them.
type leasing struct {
	root   *actor.RootContext
	holder *actor.PID
	lease  *messages.LeaseBlocks
	within time.Duration
}

// run returns what the holder says, or what is to be said of one that says nothing. That one is told to send no more.
func (l leasing) run(ctx context.Context) (*messages.LeaseBlocksResult, error) {
	asked := l.root.RequestFuture(l.holder, l.lease, l.within)
	stop := context.AfterFunc(ctx, func() { l.root.Send(asked.PID(), l.refused(messages.Reason_REASON_CANCELLED, "the remote tier ends")) })
	defer stop()
	answer, err := asked.Result()
	if errors.Is(err, actor.ErrDeadLetter) {
		return l.refused(messages.Reason_REASON_NODE_LOST, "the holder is gone"), nil
	}
	if err != nil {
		l.root.Send(l.holder, &messages.ReleaseBlocks{RequestId: l.lease.GetRequestId()})
		return l.refused(messages.Reason_REASON_DEADLINE, "the holder was silent for "+l.within.String()), nil
	}
	return answer.(*messages.LeaseBlocksResult), nil
}

func (l leasing) refused(reason messages.Reason, detail string) *messages.LeaseBlocksResult {
	return &messages.LeaseBlocksResult{RequestId: l.lease.GetRequestId(), Outcome: &messages.LeaseBlocksResult_Refused{
		Refused: &messages.Refused{Reason: reason, Detail: detail},
	}}
}
