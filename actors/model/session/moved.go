package session

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// onMoved follows the sequence to another replica. Its answer to GetSequence reveals tokens that
// were lost.
func (s *session) onMoved(ctx actor.Context, msg *messages.SequenceMoved) {
	to := actor.NewPID(msg.GetActor().GetAddress(), msg.GetActor().GetId())
	switch {
	case s.replica != nil && s.isAssigned(to):
		return
	case s.replica != nil && !s.isAssigned(ctx.Sender()): // the session has moved on to a third replica
		ctx.Send(to, &messages.CancelSequence{RequestId: s.RequestID})
		return
	}
	ctx.Send(s.Router, msg)
	s.detach(ctx)
	if to.Equal(s.otherReplica) {
		s.otherReplica = nil
	}
	s.attempt++
	s.replica = &assignedReplica{name: msg.GetReplica(), pid: to, incarnation: msg.GetIncarnation()}
	ctx.Watch(to)
	ctx.Request(to, &messages.GetSequence{RequestId: s.RequestID})
	s.setTimer(ctx, checkInterval, &check{s.incarnation, s.attempt})
}

// isAssigned reports whether pid is the replica that serves the sequence. An unknown sender counts
// as that replica.
func (s *session) isAssigned(pid *actor.PID) bool {
	return pid == nil || s.replica != nil && s.replica.pid.Equal(pid)
}

// trackSender records the sender of tokens, and reports whether it is the assigned replica. Another
// sender may be taking over: its first token can arrive before SequenceMoved. If both keep sending,
// SequenceMoved was lost, and the other replica is cancelled.
func (s *session) trackSender(ctx actor.Context) bool {
	pid := ctx.Sender()
	switch {
	case s.isAssigned(pid):
		switch {
		case s.replica != nil && s.replica.pid.Equal(s.otherReplica):
			s.otherReplica = nil
		case s.otherReplica != nil && time.Since(s.otherSince) > checkInterval:
			s.cancelOther(ctx)
		}
		return true
	case !pid.Equal(s.otherReplica):
		s.cancelOther(ctx)
		s.otherReplica, s.otherSince = pid, time.Now()
	}
	return false
}

func (s *session) cancelOther(ctx actor.Context) {
	if s.otherReplica != nil {
		ctx.Send(s.otherReplica, &messages.CancelSequence{RequestId: s.RequestID})
		s.otherReplica = nil
	}
}
