package session

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

func (s *session) onStarted(ctx actor.Context) {
	if s.Client.Left() {
		s.onClose(ctx)
		return
	}
	s.perform(ctx, s.machine.Start(len(s.Client.Output()), s.kept.revision, supervise.Now(ctx)))
}

// onStopping cancels the sequence if the client has left: the next incarnation would not know where
// it runs.
func (s *session) onStopping(ctx actor.Context) {
	if s.Client.Left() {
		s.onClose(ctx)
	}
	s.perform(ctx, s.machine.Stop(supervise.Now(ctx)))
}

func (s *session) onRouted(ctx actor.Context, msg *messages.RouteSequenceResult) {
	if r := msg.GetRefused(); r != nil {
		s.perform(ctx, s.machine.RouteRefused(refusalOf(r), supervise.Now(ctx)))
		return
	}
	if msg.GetWaiting() != nil {
		s.perform(ctx, s.machine.Queued(supervise.Now(ctx)))
		return
	}
	to := msg.GetRouted()
	s.perform(ctx, s.machine.Routed(replicaOf(to.GetReplica(), to.GetActor(), to.GetIncarnation()), supervise.Now(ctx)))
}

func (s *session) onSubmitted(ctx actor.Context, msg *messages.SubmitSequenceResult) {
	from, now := actorOf(ctx.Sender()), supervise.Now(ctx)
	if r := msg.GetRefused(); r != nil {
		s.perform(ctx, s.machine.SubmitRefused(from, refusalOf(r), now))
		return
	}
	s.perform(ctx, s.machine.Accepted(from, msg.GetIncarnation(), msg.GetAccepted().GetRevisionDigest(), now))
}

func (s *session) onTokens(ctx actor.Context, msg *messages.TokensEmitted) {
	s.perform(ctx, s.machine.Emitted(tokensOf(ctx.Sender(), msg), supervise.Now(ctx)))
}

func (s *session) onInterrupted(ctx actor.Context, msg *messages.SequenceInterrupted) {
	s.perform(ctx, s.machine.Interrupted(actorOf(ctx.Sender()), msg.GetIncarnation(), refusalOf(msg.GetRefused()),
		supervise.Now(ctx)))
}

func (s *session) onStatus(ctx actor.Context, msg *messages.SequenceStatus) {
	s.perform(ctx, s.machine.Status(actorOf(ctx.Sender()), msg.GetKnown(), int(msg.GetOutputTokens()),
		supervise.Now(ctx)))
}

func (s *session) onMoved(ctx actor.Context, msg *messages.SequenceMoved) {
	to := replicaOf(msg.GetReplica(), msg.GetActor(), msg.GetIncarnation())
	s.perform(ctx, s.machine.Moved(actorOf(ctx.Sender()), to, supervise.Now(ctx)))
}

// onLost handles the loss of an actor: it stopped, its node left, or it could not receive a
// message.
func (s *session) onLost(ctx actor.Context, pid *actor.PID) {
	s.perform(ctx, s.machine.Lost(actorOf(pid), supervise.Now(ctx)))
}

func (s *session) onClose(ctx actor.Context) { s.perform(ctx, s.machine.Close(supervise.Now(ctx))) }

func (s *session) onTimer(ctx actor.Context, msg *timerFired) {
	if msg.incarnation == s.incarnation {
		s.perform(ctx, s.machine.Timer(msg.attempt, supervise.Now(ctx)))
	}
}
