package kvblock

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/tier"
	"troupe/messages"
)

// perform carries out the machine's effects, in order.
func (s *tierActor) perform(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.AnswerReserve:
			reply(ctx, e.To, slotsReserved(e))
		case core.RefuseReserve:
			reply(ctx, e.To, slotsRefused(e))
		case core.AnswerLock:
			reply(ctx, e.To, &messages.LockBlocksResult{RequestId: e.ID, Locked: wireSlots(e.Slots)})
		case core.AnswerFlush:
			s.answerFlush(ctx, e)
		case core.Copy:
			s.copyDown(ctx, e)
		case core.Erase:
			s.erase(ctx, e)
		case core.Export:
			s.exporter.Perform(ctx, e.Effect)
		case core.Announce:
			s.announce(ctx, e)
		case core.ExpireReservation:
			supervise.After(ctx, e.After, &reservationExpiry{s.incarnation, e.ID})
		case core.ExpirePins:
			supervise.After(ctx, e.After, &pinExpiry{s.incarnation, e.Replica, e.Version})
		case core.Pause:
			supervise.After(ctx, e.After, &retryDemote{s.incarnation})
			s.Log.Warn().Err(ctx.Message().(*demoteDone).err).Str("tier", s.Name).Msg("demotion failed")
		case core.Dropped:
			s.Log.Debug().Str("tier", s.Name).Int("blocks", e.Blocks).Str("why", e.Why).Msg("blocks dropped")
		case core.Damaged:
			s.Log.Warn().Str("tier", s.Name).Msg("damaged block dropped")
		case core.TimedOut:
			s.Log.Warn().Str("tier", s.Name).Dur("waited", e.Waited).
				Msg("slab reassignment timed out; dropping blocks of another size")
		case core.Ignored:
			s.Log.Debug().Str("tier", s.Name).Stringer("object", e.Object).Str("id", e.ID).Stringer("state", e.State).
				Stringer("trigger", e.Trigger).Msg("event ignored by tier")
		default:
			panic(fmt.Sprintf("kvblock: unknown effect %T", effect))
		}
	}
}

// copyDown starts a job that copies blocks to the tier below.
func (s *tierActor) copyDown(ctx actor.Context, e core.Copy) {
	d := demoteJob{
		tier: s.Name, name: fmt.Sprintf("%s-%d-%d", s.Name, s.incarnation, e.Number), report: s.OnDemoted,
		from: s.Store, to: *s.Below, root: ctx.ActorSystem().Root, blocks: e.Blocks,
	}
	incarnation := s.incarnation
	supervise.Job(ctx, s.lifetime, d.run, func(outcomes []core.Outcome, err error) any {
		return &demoteDone{incarnation, outcomes, err}
	})
}

// erase starts a job that erases slots, so that a later incarnation does not find their blocks.
func (s *tierActor) erase(ctx actor.Context, e core.Erase) {
	incarnation, store := s.incarnation, s.Store
	run := func(ctx context.Context) (struct{}, error) { return struct{}{}, store.Erase(ctx, e.Slots) }
	supervise.Job(ctx, s.lifetime, run, func(_ struct{}, err error) any { return &flushed{incarnation, e.ID, err} })
}

func (s *tierActor) answerFlush(ctx actor.Context, e core.AnswerFlush) {
	moved := &messages.KvMoved{Tier: s.Name, Blocks: uint32(e.Blocks)}
	if e.Fault != "" {
		moved.Detail = "some blocks may reappear after a restart: " + e.Fault
		s.Log.Warn().Err(ctx.Message().(*flushed).err).Str("tier", s.Name).Msg("flush: erasing blocks failed")
	}
	reply(ctx, e.To, &messages.BlocksMoved{RequestId: e.ID, Outcome: &messages.BlocksMoved_Moved{Moved: moved}})
}

func (s *tierActor) announce(ctx actor.Context, e core.Announce) {
	ctx.Send(s.Router, &messages.TierAnnounced{
		Name: s.Name, Actor: &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()},
		Committed: e.Committed, Evicted: e.Evicted, Snapshot: e.Snapshot,
	})
}
