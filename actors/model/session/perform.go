package session

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	core "troupe/core/session"
	"troupe/messages"
)

// perform carries out the machine's effects, in order.
func (s *session) perform(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.AskRoute:
			s.askRoute(ctx, e)
		case core.Withdraw:
			ctx.Send(s.Router, &messages.CancelRoute{RequestId: s.RequestID})
		case core.Submit:
			s.submit(ctx, e)
		case core.Query:
			ctx.Request(pidOf(e.To), &messages.GetSequence{RequestId: s.RequestID})
		case core.Cancel:
			s.cancel(ctx, e.At)
		case core.Abandon:
			s.abandon(ctx, e)
		case core.Watch:
			ctx.Watch(pidOf(e.Replica))
		case core.Unwatch:
			ctx.Unwatch(pidOf(e.Replica))
		case core.SetTimer:
			s.stopTimer()
			s.timer = supervise.After(ctx, e.After, &timerFired{s.incarnation, e.Attempt})
		case core.StopTimer:
			s.stopTimer()
		case core.Deliver:
			s.deliver(ctx.Message().(*messages.TokensEmitted), e.Skip)
		case core.Relay:
			s.Client.Fail(ctx.Message().(interface{ GetRefused() *messages.Refused }).GetRefused())
		case core.Fail:
			s.Client.Fail(&messages.Refused{Reason: wireReason(e.Reason), Detail: e.Detail})
		case core.KeepRevision:
			s.kept.revision = e.Digest
		case core.KeepPlace:
			s.kept.placed = e.At
		case core.KeepBegun:
			s.kept.begun = true
		case core.ReportMove:
			ctx.Send(s.Router, ctx.Message())
		case core.End:
			ctx.Stop(ctx.Self())
		case core.Ignored:
			s.Log.Debug().Str("request", s.RequestID).Stringer("state", e.State).Stringer("event", e.Event).
				Str("why", e.Why).Msg("event ignored by session")
		default:
			panic(fmt.Sprintf("session: unknown effect %T", effect))
		}
	}
}

func (s *session) askRoute(ctx actor.Context, e core.AskRoute) {
	ctx.Request(s.Router, &messages.RouteSequence{
		RequestId: s.RequestID, Model: s.Sequence.GetModel(), Adapter: s.Sequence.GetAdapter(), Avoid: e.Avoid,
		Prompt: slices.Concat(s.Sequence.GetPrompt(), s.Client.Output()), AdapterSpec: s.Sequence.GetAdapterSpec(),
		Cause:     e.Cause,
		CacheSalt: s.Sequence.GetCacheSalt(), RevisionDigest: e.Revision,
		Priority: s.Sequence.GetPriority(), Arrived: s.Sequence.GetArrived(), Deadline: s.Sequence.GetDeadline(),
		Wait: s.Sequence.GetWait(), Begun: e.Begun,
	})
}

func (s *session) submit(ctx actor.Context, e core.Submit) {
	msg := &messages.SubmitSequence{
		RequestId: s.RequestID, Sequence: s.Sequence, Output: s.Client.Output(), RevisionDigest: e.Revision,
	}
	if e.Waited > 0 {
		msg.Waited = durationpb.New(e.Waited)
	}
	ctx.Request(pidOf(e.To), msg)
}

func (s *session) cancel(ctx actor.Context, at core.Actor) {
	ctx.Send(pidOf(at), &messages.CancelSequence{RequestId: s.RequestID})
}

func (s *session) abandon(ctx actor.Context, e core.Abandon) {
	s.Log.Warn().Str("request", s.RequestID).Str("replica", e.Replica.Name).Str("instead", e.Instead).
		Msg("silent replica abandoned")
	s.cancel(ctx, e.Replica.Actor)
}

func (s *session) deliver(msg *messages.TokensEmitted, skip int) {
	logprobs := msg.GetLogprobs()
	if len(logprobs) > 0 {
		logprobs = logprobs[skip:]
	}
	s.Client.Deliver(msg.GetTokens()[skip:], logprobs, msg.GetCachedTokens(), msg.GetFinish())
}

func (s *session) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
