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
		return // the answer to a question asked twice
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
	if s.abandoned != nil && to.GetReplica() != s.abandoned.name { // should it wake up, it must not go on for nobody
		s.Log.Warn().Str("request", s.RequestID).Str("replica", s.abandoned.name).Str("instead", to.GetReplica()).
			Msg("replica is silent and given up")
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
		if s.Sequence.GetAdapter() != "" && s.outputRevision() == "" { // the adapter is for other weights
			s.fail(ctx, r)
			return
		}
		fallthrough
	case messages.Reason_REASON_NOT_READY, messages.Reason_REASON_DRAINING:
		s.cause = s.replica.name + " refused it: " + r.GetDetail()
		s.retryOrExpire(ctx, r)
	default:
		s.fail(ctx, r)
	}
}

// retryOrExpire routes again when the replica that refused may be ready, as long as the request has time.
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
	case first > seen && own: // what lies between was lost
		s.cause = "tokens were lost on the way"
		s.route(ctx)
		return
	case first > seen: // it is on its way from the replica that this one takes over from
		return
	}
	finished := msg.GetFinish() != messages.FinishReason_FINISH_REASON_UNSPECIFIED
	if last > seen {
		s.interruptions, s.avoid = 0, nil
	}
	if skip := min(seen, last) - first; last > seen || finished { // one message: the client is woken once
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

// final are the reasons for which a replica gives a sequence up that no other replica would take either: the request itself, or its adapter.
var finalReasons = map[messages.Reason]bool{
	messages.Reason_REASON_ENGINE_FAILED: true, messages.Reason_REASON_LOAD_FAILED: true,
	messages.Reason_REASON_NO_MEMORY:  true,
	messages.Reason_REASON_QUEUE_FULL: true, messages.Reason_REASON_NOT_FOUND: true,
	messages.Reason_REASON_UNSUPPORTED: true,
	messages.Reason_REASON_NUMERIC:     true,
}

// onInterrupted: the replica lives on, or its successor will, but without this sequence.
func (s *session) onInterrupted(ctx actor.Context, msg *messages.SequenceInterrupted) {
	if s.replica == nil || msg.GetIncarnation() < s.replica.incarnation || !s.isAssigned(ctx.Sender()) {
		return // from a replica, or a life of it, that this session has left
	}
	r := msg.GetRefused()
	s.interruptions++
	switch {
	case finalReasons[r.GetReason()]:
		s.fail(ctx, r)
	case s.interruptions > maxInterruptions:
		s.fail(ctx, &messages.Refused{
			Reason: messages.Reason_REASON_ENGINE_FAILED,
			Detail: "the replica was lost again and again while it served this request: " + r.GetDetail(),
		})
	default:
		s.cause = s.replica.name + " gave it up: " + r.GetDetail()
		s.retryOrExpire(ctx, r)
	}
}

// onReplicaLost: the replica stopped, its node left, or nobody was there to receive what was sent.
func (s *session) onReplicaLost(ctx actor.Context, who *actor.PID) {
	if s.replica == nil || !s.isAssigned(who) {
		return // one that was left, or the router, which is asked again
	}
	if !slices.Contains(s.avoid, s.replica.name) {
		s.avoid = append(s.avoid, s.replica.name)
	}
	s.cause = s.replica.name + " is gone, or its node, or the way there"
	if !s.failIfExpired(ctx) {
		s.routeAfter(ctx, minRetryDelay)
	}
}

// onCheck: nothing that was sent may have been lost. Ask a replica that is silent. By how much the note is late, this node has stood still, and
// heard nobody: that does not count.
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

// abandon leaves a replica that does not answer: it hangs, or is cut off. Where the router still hears from its node it is only
// busy, and is given the sequence again, which it has.
func (s *session) abandon(ctx actor.Context) {
	s.abandoned = s.replica
	s.cause = fmt.Sprintf("%s said nothing for %s", s.replica.name, time.Since(s.lastHeard).Round(time.Millisecond))
	s.route(ctx)
}

func (s *session) onStatus(ctx actor.Context, msg *messages.SequenceStatus) {
	s.lastHeard = time.Now()
	if s.replica == nil {
		return
	}
	if !msg.GetKnown() || msg.GetOutputTokens() > uint32(len(s.Client.Output())) {
		s.submit(ctx, s.replica) // it was lost, or tokens of it were
	}
}

func (s *session) onRetry(ctx actor.Context, msg *retry) {
	if msg.incarnation != s.incarnation || msg.attempt != s.attempt || s.replica != nil || s.failIfExpired(ctx) {
		return
	}
	s.route(ctx)
}

// onClose: the client left, or has all it wants.
func (s *session) onClose(ctx actor.Context) {
	if s.replica != nil {
		ctx.Send(s.replica.pid, &messages.CancelSequence{RequestId: s.RequestID})
	}
	s.stop(ctx)
}

// failIfExpired ends the session when its deadline has passed.
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

// fail ends the session with an error for the client.
func (s *session) fail(ctx actor.Context, r *messages.Refused) {
	s.Client.Fail(r)
	s.stop(ctx)
}
