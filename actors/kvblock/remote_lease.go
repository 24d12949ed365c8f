package kvblock

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

// leaseRequest requests blocks from a holder and waits until the holder has sent them.
type leaseRequest struct {
	root    *actor.RootContext
	runtime supervise.Runtime
	holder  *actor.PID
	lease   *messages.LeaseBlocks
	timeout time.Duration
}

// run returns the holder's answer, or a refusal if the holder does not answer. A holder that does
// not answer in time is asked to stop sending.
func (l leaseRequest) run(life context.Context) (*messages.LeaseBlocksResult, error) {
	asked := supervise.Request(l.root, l.holder, l.lease, l.timeout)
	answered, end := context.WithCancel(life)
	defer end()
	l.runtime.Go(func() {
		<-answered.Done()
		if life.Err() != nil {
			l.root.Send(asked.PID(), l.refused(messages.Reason_REASON_CANCELLED, "the remote tier is stopping"))
		}
	})
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
