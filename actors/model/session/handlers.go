package session

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

func (s *session) onStarted(ctx actor.Context) {
	s.perform(ctx, s.machine.Start(len(s.Client.Output()), *s.revision, time.Now()))
}

func (s *session) onStopping(ctx actor.Context) { s.perform(ctx, s.machine.Stop(time.Now())) }

func (s *session) onRouted(ctx actor.Context, msg *messages.RouteSequenceResult) {
	if r := msg.GetRefused(); r != nil {
		s.perform(ctx, s.machine.RouteRefused(refusalOf(r), time.Now()))
		return
	}
	to := msg.GetRouted()
	s.perform(ctx, s.machine.Routed(replicaOf(to.GetReplica(), to.GetActor(), to.GetIncarnation()), time.Now()))
}

func (s *session) onSubmitted(ctx actor.Context, msg *messages.SubmitSequenceResult) {
	if r := msg.GetRefused(); r != nil {
		s.perform(ctx, s.machine.SubmitRefused(refusalOf(r), time.Now()))
		return
	}
	s.perform(ctx, s.machine.Accepted(msg.GetIncarnation(), msg.GetAccepted().GetRevisionDigest(), time.Now()))
}

func (s *session) onTokens(ctx actor.Context, msg *messages.TokensEmitted) {
	s.perform(ctx, s.machine.Emitted(tokensOf(ctx.Sender(), msg), time.Now()))
}

func (s *session) onInterrupted(ctx actor.Context, msg *messages.SequenceInterrupted) {
	s.perform(ctx, s.machine.Interrupted(actorOf(ctx.Sender()), msg.GetIncarnation(), refusalOf(msg.GetRefused()),
		time.Now()))
}

func (s *session) onStatus(ctx actor.Context, msg *messages.SequenceStatus) {
	s.perform(ctx, s.machine.Status(msg.GetKnown(), int(msg.GetOutputTokens()), time.Now()))
}

func (s *session) onMoved(ctx actor.Context, msg *messages.SequenceMoved) {
	to := replicaOf(msg.GetReplica(), msg.GetActor(), msg.GetIncarnation())
	s.perform(ctx, s.machine.Moved(actorOf(ctx.Sender()), to, time.Now()))
}

// onLost handles the loss of an actor: it stopped, its node left, or it could not receive a
// message.
func (s *session) onLost(ctx actor.Context, pid *actor.PID) {
	s.perform(ctx, s.machine.Lost(actorOf(pid), time.Now()))
}

func (s *session) onClose(ctx actor.Context) { s.perform(ctx, s.machine.Close(time.Now())) }

func (s *session) onTimer(ctx actor.Context, msg *timerFired) {
	if msg.incarnation == s.incarnation {
		s.perform(ctx, s.machine.Timer(msg.attempt, time.Now()))
	}
}
