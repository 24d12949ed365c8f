package kvblock

import (
	"context"
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
func (l leasing) run(context.Context) (*messages.LeaseBlocksResult, error) {
	answer, err := l.root.RequestFuture(l.holder, l.lease, l.within).Result()
	if err != nil {
		l.root.Send(l.holder, &messages.ReleaseBlocks{RequestId: l.lease.GetRequestId()})
		return l.refused(messages.Reason_REASON_DEADLINE, "the holder was silent for "+l.within.String()), nil
	}
	if result, ok := answer.(*messages.LeaseBlocksResult); ok {
		return result, nil
	}
	return l.refused(messages.Reason_REASON_NODE_LOST, "the holder is gone"), nil
}

func (l leasing) refused(reason messages.Reason, detail string) *messages.LeaseBlocksResult {
	return &messages.LeaseBlocksResult{RequestId: l.lease.GetRequestId(), Outcome: &messages.LeaseBlocksResult_Refused{
		Refused: &messages.Refused{Reason: reason, Detail: detail},
	}}
}
