package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

func (s *session) onRouted(ctx actor.Context, msg *messages.RouteSequenceResult) {
	if s.replica != nil {
		return // the reply to a repeated request
	}
	if r := msg.GetRefused(); r != nil {
		if r.GetReason() == messages.Reason_REASON_NOT_READY {
			s.retryOrExpire(ctx, r)
			return
		}
		s.fail(ctx, r)
		return
	}
	to := msg.GetRouted()
	if s.abandoned != nil && to.GetReplica() != s.abandoned.name { // in case it still runs the sequence
		s.Log.Warn().Str("request", s.RequestID).Str("replica", s.abandoned.name).Str("instead", to.GetReplica()).
			Msg("silent replica abandoned")
		ctx.Send(s.abandoned.pid, &messages.CancelSequence{RequestId: s.RequestID})
	}
	s.abandoned = nil
	s.submit(ctx, &assignedReplica{
		name: to.GetReplica(), pid: actor.NewPID(to.GetActor().GetAddress(), to.GetActor().GetId()),
		incarnation: to.GetIncarnation(),
	})
}

func (s *session) onSubmitted(ctx actor.Context, msg *messages.SubmitSequenceResult) {
	if s.replica == nil {
		return
	}
	s.lastHeard = time.Now()
	r := msg.GetRefused()
	if r == nil {
		s.replica.incarnation = msg.GetIncarnation()
		if s.outputRevision() == "" {
			*s.revision = msg.GetAccepted().GetRevisionDigest()
		}
		return
	}
	switch r.GetReason() {
	case messages.Reason_REASON_WEIGHTS_DIFFER:
		if s.Sequence.GetAdapter() != "" && s.outputRevision() == "" { // the adapter belongs to other weights
			s.fail(ctx, r)
			return
		}
		fallthrough
	case messages.Reason_REASON_NOT_READY, messages.Reason_REASON_DRAINING:
		s.cause = s.replica.name + " refused the request: " + r.GetDetail()
		s.retryOrExpire(ctx, r)
	default:
		s.fail(ctx, r)
	}
}

// retryOrExpire requests a route again after a refusal, unless the deadline has passed.
func (s *session) retryOrExpire(ctx actor.Context, r *messages.Refused) {
	if s.failIfExpired(ctx) {
		return
	}
	s.routeAfter(ctx, r.GetRetryAfter().AsDuration())
}

func (s *session) onTokens(ctx actor.Context, msg *messages.TokensEmitted) {
	s.lastHeard = time.Now()
	own := s.trackSender(ctx)
	seen, first := uint32(len(s.Client.Output())), msg.GetFirstIndex()
	last := first + uint32(len(msg.GetTokens()))
	switch {
	case first > seen && own: // the tokens in between were lost
		s.cause = "tokens were lost in transit"
		s.route(ctx)
		return
	case first > seen: // from the replica that takes over; the earlier tokens are still on their way
		return
	}
	finished := msg.GetFinish() != messages.FinishReason_FINISH_REASON_UNSPECIFIED
	if last > seen {
		s.interruptions, s.avoid = 0, nil
	}
	if skip := min(seen, last) - first; last > seen || finished { // a single Deliver wakes the client once
		s.Client.Deliver(msg.GetTokens()[skip:], logprobsFrom(msg.GetLogprobs(), skip), msg.GetCachedTokens(),
			msg.GetFinish())
	}
	if finished {
		if own {
			s.stop(ctx)
		} else {
			s.onClose(ctx)
		}
	}
}

func logprobsFrom(logprobs []*messages.TokenLogprobs, skip uint32) []*messages.TokenLogprobs {
	if len(logprobs) == 0 {
		return nil
	}
	return logprobs[skip:]
}

// finalReasons are the reasons with which no other replica would take a sequence either, because of
// the request or its adapter.
var finalReasons = map[messages.Reason]bool{
	messages.Reason_REASON_ENGINE_FAILED: true, messages.Reason_REASON_LOAD_FAILED: true,
	messages.Reason_REASON_NO_MEMORY:  true,
	messages.Reason_REASON_QUEUE_FULL: true, messages.Reason_REASON_NOT_FOUND: true,
	messages.Reason_REASON_UNSUPPORTED: true,
	messages.Reason_REASON_NUMERIC:     true,
}

// onInterrupted handles a replica, or its next incarnation, that no longer has the sequence.
func (s *session) onInterrupted(ctx actor.Context, msg *messages.SequenceInterrupted) {
	if s.replica == nil || msg.GetIncarnation() < s.replica.incarnation || !s.isAssigned(ctx.Sender()) {
		return // from an earlier replica or incarnation
	}
	r := msg.GetRefused()
	s.interruptions++
	switch {
	case finalReasons[r.GetReason()]:
		s.fail(ctx, r)
	case s.interruptions > maxInterruptions:
		s.fail(ctx, &messages.Refused{
			Reason: messages.Reason_REASON_ENGINE_FAILED,
			Detail: "the replica failed repeatedly while it served this request: " + r.GetDetail(),
		})
	default:
		s.cause = s.replica.name + " interrupted the request: " + r.GetDetail()
		s.retryOrExpire(ctx, r)
	}
}

// onReplicaLost handles a replica that stopped, whose node left, or that could not receive a
// message.
func (s *session) onReplicaLost(ctx actor.Context, pid *actor.PID) {
	if s.replica == nil || !s.isAssigned(pid) {
		return // an earlier replica, or the router, which is asked again
	}
	if !slices.Contains(s.avoid, s.replica.name) {
		s.avoid = append(s.avoid, s.replica.name)
	}
	s.cause = s.replica.name + " is unreachable: it or its node stopped, or the connection broke"
	if !s.failIfExpired(ctx) {
		s.routeAfter(ctx, minRetryDelay)
	}
}

// onCheck queries a silent replica, since messages may be lost, and abandons it after
// silenceTimeout. If the timer fired late, this process stalled; the stall does not count as
// silence.
func (s *session) onCheck(ctx actor.Context, msg *check) {
	if msg.incarnation != s.incarnation || msg.attempt != s.attempt || s.replica == nil || s.failIfExpired(ctx) {
		return
	}
	s.lastHeard = s.lastHeard.Add(time.Since(s.timerDue))
	switch silent := time.Since(s.lastHeard); {
	case silent >= silenceTimeout:
		s.abandon(ctx)
		return
	case silent >= checkInterval:
		ctx.Request(s.replica.pid, &messages.GetSequence{RequestId: s.RequestID})
	}
	s.setTimer(ctx, min(checkInterval, silenceTimeout-time.Since(s.lastHeard)), msg)
}

// abandon requests another replica when this one does not answer: it hangs or is unreachable. If
// the router still hears from the replica's node, the replica is only busy. The router may then
// return it again, and it still has the sequence.
func (s *session) abandon(ctx actor.Context) {
	s.abandoned = s.replica
	s.cause = fmt.Sprintf("%s was silent for %s", s.replica.name, time.Since(s.lastHeard).Round(time.Millisecond))
	s.route(ctx)
}

func (s *session) onStatus(ctx actor.Context, msg *messages.SequenceStatus) {
	s.lastHeard = time.Now()
	if s.replica == nil {
		return
	}
	if !msg.GetKnown() || msg.GetOutputTokens() > uint32(len(s.Client.Output())) {
		s.submit(ctx, s.replica) // the sequence or some of its tokens were lost
	}
}

func (s *session) onRetry(ctx actor.Context, msg *retry) {
	if msg.incarnation != s.incarnation || msg.attempt != s.attempt || s.replica != nil || s.failIfExpired(ctx) {
		return
	}
	s.route(ctx)
}

// onClose ends the session when the client left or has all its output.
func (s *session) onClose(ctx actor.Context) {
	if s.replica != nil {
		ctx.Send(s.replica.pid, &messages.CancelSequence{RequestId: s.RequestID})
	}
	s.stop(ctx)
}

// failIfExpired ends the session and reports true if its deadline has passed.
func (s *session) failIfExpired(ctx actor.Context) bool {
	d := s.Sequence.GetDeadline()
	if d == nil || time.Now().Before(d.AsTime()) {
		return false
	}
	s.Client.Fail(&messages.Refused{
		Reason: messages.Reason_REASON_DEADLINE,
		Detail: "the request's time is up; raise its timeout, or lower max_tokens",
	})
	s.onClose(ctx)
	return true
}

// fail ends the session with a refusal.
func (s *session) fail(ctx actor.Context, r *messages.Refused) {
	s.Client.Fail(r)
	s.stop(ctx)
}
